//! `acp-core`'s blocking driver, used as its documentation says.

use std::time::{Duration, Instant};

use acp_core::{AcpModel, GenerateRequest, LoadOptions, load_acp};

use crate::{Client, Result};

pub struct Blocking(AcpModel);

impl Client for Blocking {
    fn open(agent: &[String]) -> Result<Self> {
        Ok(Self(load_acp(LoadOptions::new(agent))?))
    }

    fn turns(
        &mut self,
        script: &str,
        count: usize,
        done: &mut dyn FnMut(Duration, usize),
    ) -> Result<()> {
        for _ in 0..count {
            let start = Instant::now();
            let answer = self.0.generate(&GenerateRequest::user(script))?;
            done(start.elapsed(), answer.content.len());
        }
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.0.close();
        Ok(())
    }
}
