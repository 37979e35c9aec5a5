//! Two tenants on one pool: `cargo run -p acp-core --features tokio --example pool -- AGENT ARGS`.

use std::env;
use std::error::Error;
use std::time::Duration;

use acp_core::tokio::{Pool, PoolMetrics, PoolOptions};
use acp_core::{GenerateError, GenerateRequest, LoadOptions, Message};

/// A conversation as a stateless client has it: all of it goes out with each question.
async fn talk(pool: &Pool, tenant: &str, questions: &[&str]) -> Result<String, GenerateError> {
    let mut messages = vec![Message::system("Answer in one sentence.")];
    for &question in questions {
        messages.push(Message::user(question));
        let request = GenerateRequest::new(messages.clone());
        let answer = pool.generate_for(tenant, &request).await?;
        messages.push(answer.to_message());
    }
    Ok(messages
        .pop()
        .map(|last| last.content.text().into_owned())
        .unwrap_or_default())
}

pub async fn serve(agent: LoadOptions) -> Result<(Vec<String>, PoolMetrics), Box<dyn Error>> {
    let options = PoolOptions::new(agent)
        .processes(1..=2)
        .lanes_per_process(8);
    let pool = Pool::load(options).await?;
    let (first, second) = tokio::join!(
        talk(&pool, "tenant-1", &["What is ACP?", "Who made it?"]),
        talk(
            &pool,
            "tenant-2",
            &["What is MCP?", "Who made it?", "When?"]
        ),
    );
    let answers = vec![first?, second?];
    let metrics = pool.metrics();
    pool.shutdown(Duration::from_secs(30)).await;
    Ok((answers, metrics))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (answers, metrics) = serve(LoadOptions::new(env::args().skip(1))).await?;
    for answer in answers {
        println!("{answer}");
    }
    println!(
        "{} of {} turns went on in a warm session",
        metrics.hits, metrics.answered
    );
    Ok(())
}
