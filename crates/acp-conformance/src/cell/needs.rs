//! What a transcript needs of a port, and what the port says that it can do.

use acp_fake_server::Fixture;

use crate::{
    port::Port,
    protocol::Greeting,
    tier::Capability,
    verdict::{Cell, Verdict},
};

/// The capabilities that `fixture` needs and `port` does not declare. One that the port's tier requires
/// fails the cell.
pub(super) fn missing(
    fixture: &Fixture,
    port: &Port,
    greeting: &Greeting,
) -> Result<Vec<String>, Verdict> {
    let mut missing = Vec::new();
    for need in &fixture.needs {
        let Some(capability) = Capability::from_name(need) else {
            return Err(Verdict::Broken(format!(
                "the transcript needs {need}, which is no capability"
            )));
        };
        if greeting.capabilities.contains(&capability) {
            continue;
        }
        if port.tier.required().contains(&capability) {
            return Err(Verdict::Fail(format!(
                "the port does not declare {need}, which its tier requires"
            )));
        }
        missing.push(need.clone());
    }
    Ok(missing)
}

/// The cell of a transcript that does not apply to a port, if that is so by what the port's driver has said
/// in an earlier cell: no driver has to be started to say it again.
pub fn not_applicable(fixture: &Fixture, port: &Port, greeting: &Greeting) -> Option<Cell> {
    let missing = missing(fixture, port, greeting).ok()?;
    if missing.is_empty() {
        return None;
    }
    Some(Cell {
        verdict: Verdict::NotApplicable { missing },
        greeting: Some(greeting.clone()),
        ..Cell::new(port, fixture)
    })
}
