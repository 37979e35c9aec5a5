//! The process that lanes find their way to, which may be a new one after a death.

use std::sync::{Arc, Mutex};

use super::Driven;
use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::sync::lock;
use crate::turn::TurnOptions;

pub(crate) struct Link<D> {
    options: LoadOptions,
    /// Locked for a moment only.
    state: Mutex<State<D>>,
    /// Held while a lost process is replaced, so that only one caller does it.
    replacing: Mutex<()>,
}

struct State<D> {
    shared: Arc<D>,
    closed: bool,
}

impl<D: Driven> Link<D> {
    /// Starts the first process.
    pub(crate) fn start(options: LoadOptions) -> Result<Arc<Self>, LoadError> {
        let shared = D::start(&options)?;
        let state = State {
            shared,
            closed: false,
        };
        Ok(Arc::new(Self {
            options,
            state: Mutex::new(state),
            replacing: Mutex::new(()),
        }))
    }

    /// The process for the next turn. One that is worn out is replaced first, and with
    /// [`LoadOptions::restart`] one that is lost; the turns that it was lost with stay lost, because they
    /// may have had effects.
    pub(crate) fn live(&self) -> Result<Arc<D>, LoadError> {
        if let Some(shared) = self.serving() {
            return Ok(shared);
        }
        let _replacing = lock(&self.replacing);
        // Somebody else may have replaced it meanwhile.
        if let Some(shared) = self.serving() {
            return Ok(shared);
        }
        self.shared().replace();
        if self.is_closed() {
            return Ok(self.shared());
        }
        // Whichever lane came first would get the session that another one had.
        let new = D::start(&self.options.clone().without_resume())?;
        // If it was closed meanwhile, whoever did waits for this one to end it.
        lock(&self.state).shared = Arc::clone(&new);
        Ok(new)
    }

    /// The process now, unless another one has to take its place.
    fn serving(&self) -> Option<Arc<D>> {
        let (shared, closed) = {
            let state = lock(&self.state);
            (Arc::clone(&state.shared), state.closed)
        };
        let serves = closed || !(shared.retire() || self.options.restart && shared.is_lost());
        serves.then_some(shared)
    }

    /// The process now.
    pub(crate) fn shared(&self) -> Arc<D> {
        Arc::clone(&lock(&self.state).shared)
    }

    /// Whether nothing takes the place of a process any more.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Lets nothing take the place of the process any more, and hands it out to be closed.
    pub(crate) fn close(&self) -> Arc<D> {
        lock(&self.state).closed = true;
        // One that takes its place right now would be left behind.
        let _replacing = lock(&self.replacing);
        self.shared()
    }

    pub(crate) fn turn_options(&self) -> TurnOptions {
        self.options.turn
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test needs threads of its own"
)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::MutexGuard;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::Instant;

    use serde_json::Value;

    use super::*;
    use crate::connection::{Connection, ConnectionOptions, PermissionId, RequestKey};
    use crate::driver::{Core, Few, Input, Wake};
    use crate::permission::PermissionRequest;
    use crate::process::AgentProcess;

    struct Nobody;

    impl Wake for Nobody {
        fn take(&mut self) -> Self {
            Self
        }

        fn wake(self) {}
    }

    /// A process that is none.
    struct Fake(Mutex<Core<Nobody>>);

    /// What the next start says, and what it waits for then.
    static NEXT_START: Mutex<Option<(Sender<()>, Receiver<()>)>> = Mutex::new(None);

    impl Driven for Fake {
        type Wake = Nobody;
        type Output = OwnedFd;

        fn core(&self) -> &Mutex<Core<Nobody>> {
            &self.0
        }

        fn input(&self) -> &Input<OwnedFd> {
            unreachable!("it says nothing")
        }

        fn process(&self) -> &AgentProcess {
            unreachable!("there is none")
        }

        fn started(&self) -> Instant {
            Instant::now()
        }

        fn changed(&self) {}

        fn ask(self: &Arc<Self>, _: &mut Core<Nobody>, _: PermissionId, _: PermissionRequest) {}

        fn hand_over(self: &Arc<Self>, _: &mut Core<Nobody>, _: RequestKey, _: String, _: Value) {}

        fn send(self: &Arc<Self>, _: Few<Vec<u8>>, _: MutexGuard<'_, Core<Nobody>>) {}

        fn set_alarm(&self, _: Instant) {}

        fn start(_: &LoadOptions) -> Result<Arc<Self>, LoadError> {
            if let Some((started, go_on)) = lock(&NEXT_START).take() {
                started.send(()).unwrap();
                go_on.recv().unwrap();
            }
            let connection = Connection::new(ConnectionOptions::new("/"), Instant::now());
            Ok(Arc::new(Self(Mutex::new(Core::new(connection)))))
        }

        fn replace(self: &Arc<Self>) {}
    }

    #[test]
    fn who_closes_is_given_the_process_that_is_being_started() {
        let link = Link::<Fake>::start(LoadOptions::new(["agent"])).unwrap();
        lock(&link.shared().0).retired = true;
        let ((started, has_started), (go_on, may_go_on)) = (channel(), channel());
        *lock(&NEXT_START) = Some((started, may_go_on));
        thread::scope(|scope| {
            let replaces = scope.spawn(|| link.live().unwrap());
            has_started.recv().unwrap();
            let closes = scope.spawn(|| link.close());
            while !link.is_closed() {
                thread::yield_now();
            }
            go_on.send(()).unwrap();
            let closed = closes.join().unwrap();
            assert!(Arc::ptr_eq(&closed, &replaces.join().unwrap()));
        });
        // Nothing is started any more.
        lock(&link.shared().0).retired = true;
        assert!(Arc::ptr_eq(&link.live().unwrap(), &link.shared()));
    }
}
