//! `acp-core`'s driver for tokio, on a runtime of one thread.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use acp_core::{
    GenerateRequest, LoadOptions,
    tokio::{AcpModel, load_acp},
};
use tokio::runtime::{Builder, Runtime};

use crate::{Client, Result};

pub struct OnTokio {
    runtime: &'static Runtime,
    model: AcpModel,
}

impl Client for OnTokio {
    fn open(agent: &[String]) -> Result<Self> {
        let runtime = runtime()?;
        let model = runtime.block_on(load_acp(LoadOptions::new(agent)))?;
        Ok(Self { runtime, model })
    }

    fn turns(
        &mut self,
        script: &str,
        count: usize,
        done: &mut dyn FnMut(Duration, usize),
    ) -> Result<()> {
        self.runtime.block_on(async {
            for _ in 0..count {
                let start = Instant::now();
                let request = GenerateRequest::user(script);
                let answer = self.model.generate(&request).await?;
                done(start.elapsed(), answer.content.len());
            }
            Ok(())
        })
    }

    fn close(self) -> Result<()> {
        self.runtime.block_on(self.model.close());
        Ok(())
    }
}

/// The host's runtime, which is there before any agent and after it.
fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    Ok(RUNTIME.get_or_init(|| runtime))
}
