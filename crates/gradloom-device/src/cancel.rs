//! Ending runs early: by another thread, or by the clock.
//!
//! In: a [`CancelToken`], which the caller gives to a program. Out: an error at the next place where a run
//! can end, before its commit. Always holds: a run that ends so changes nothing that persists.

use gradloom_core::error::Result;
pub use token::CancelToken;

/// Condition that may end a run: the caller's token, if there is one. A page has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stop<'a> {
    token: Option<&'a CancelToken>,
    _token: std::marker::PhantomData<&'a ()>,
}

impl Stop<'_> {
    /// # Errors
    /// When the run is to end.
    #[inline]
    pub fn check(self) -> Result<()> {
        if let Some(token) = self.token {
            return token.check();
        }
        Ok(())
    }

    /// Returns whether anything can end the run.
    pub fn is_possible(self) -> bool {
        self.token.is_some()
    }
}

/// The token that a program was given, if any.
#[derive(Debug, Default)]
pub struct Token {
    /// Token, if one was given.
    pub given: Option<CancelToken>,
}

impl Token {
    /// Returns the condition that ends the program's runs.
    pub fn stop(&self) -> Stop<'_> {
        Stop { token: self.given.as_ref(), ..Stop::default() }
    }
}

mod token {
    use gradloom_core::error::{Error, ErrorKind, Result};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Ends the runs of the programs that it was given to (`Train::set_cancel_token`,
    /// `Infer::set_cancel_token`): when [`CancelToken::cancel`] is called, from any thread, or when its
    /// deadline has passed. Clones are the same token, and one token may be given to many programs.
    ///
    /// A run ends before its next launch on the CPU, and before its next submission on a GPU: a step that
    /// was submitted goes on. The store is left as before the step, and so is the number of attempted steps,
    /// so that the same step can be run again, with the same bits. A commit that has begun is not
    /// interrupted.
    ///
    /// ```
    /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
    /// # use gradloom_cpu::CpuDevice as _;
    /// use gradloom::{error::ErrorKind, nn::Linear, optim::Sgd, trace::f32};
    /// use gradloom::{CancelToken, Device, Trainer};
    ///
    /// let mut train = Trainer::new(Linear::new(3, 1))
    ///     .inputs([f32("x", [4, 3])])
    ///     .loss(|layer, [x]| layer.forward(x).square().mean())
    ///     .optimizer(Sgd::new(0.1))
    ///     .compile(&Device::cpu())?;
    /// let token = CancelToken::new();
    /// train.set_cancel_token(token.clone());
    /// train.step([&[1.0f32; 12]])?;
    ///
    /// // As another thread would, at any time.
    /// token.cancel();
    /// let error = train.step([&[1.0f32; 12]]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    ///
    /// train.set_cancel_token(None);
    /// train.step([&[1.0f32; 12]])?;
    /// assert_eq!(train.attempted_steps(), 2);
    /// # Ok::<(), gradloom_core::error::Error>(())
    /// ```
    ///
    #[derive(Clone, Debug, Default)]
    pub struct CancelToken {
        cancelled: Arc<AtomicBool>,
        deadline: Option<Instant>,
    }

    impl CancelToken {
        /// Creates a token without a deadline: only [`CancelToken::cancel`] ends runs.
        ///
        /// ```
        /// let token = gradloom_runtime::CancelToken::new();
        /// assert!(!token.is_cancelled());
        /// ```
        pub fn new() -> Self {
            Self::default()
        }

        /// Creates a token with a deadline, from which on it ends runs, too.
        ///
        /// ```
        /// # mod gradloom { pub use gradloom_core::*; pub use gradloom_runtime::*; }
        /// # use gradloom_cpu::CpuDevice as _;
        /// use gradloom::{error::ErrorKind, nn::Linear, trace::f32};
        /// use gradloom::{CancelToken, Device, Session};
        ///
        /// let session = Session::new(Linear::new(3, 2), &Device::cpu(), 7)?;
        /// let mut forward = session.infer([f32("x", [1, 3])], |layer, [x]| layer.forward(x))?;
        /// forward.set_cancel_token(CancelToken::with_deadline(std::time::Instant::now()));
        /// let error = forward.run([&[0.0f32; 3]]).unwrap_err();
        /// assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        /// # Ok::<(), gradloom_core::error::Error>(())
        /// ```
        pub fn with_deadline(deadline: Instant) -> Self {
            Self { deadline: Some(deadline), ..Self::default() }
        }

        /// Creates a token with a deadline after `timeout`, or without one if the clock does not reach that
        /// far.
        ///
        /// ```
        /// use std::time::Duration;
        /// let token = gradloom_runtime::CancelToken::with_timeout(Duration::from_secs(60));
        /// assert!(!token.is_cancelled());
        /// ```
        pub fn with_timeout(timeout: Duration) -> Self {
            Self { deadline: Instant::now().checked_add(timeout), ..Self::default() }
        }

        /// Ends the runs of all programs that have the token, and those that they begin from here on.
        ///
        /// ```
        /// let token = gradloom_runtime::CancelToken::new();
        /// token.clone().cancel();
        /// assert!(token.is_cancelled());
        /// ```
        pub fn cancel(&self) {
            self.cancelled.store(true, Ordering::Relaxed);
        }

        /// Returns whether the token was cancelled, or its deadline has passed.
        ///
        /// ```
        /// use std::time::Duration;
        /// assert!(gradloom_runtime::CancelToken::with_timeout(Duration::ZERO).is_cancelled());
        /// ```
        pub fn is_cancelled(&self) -> bool {
            self.cancelled.load(Ordering::Relaxed)
                || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
        }

        /// # Errors
        /// When runs are to end.
        #[inline]
        pub fn check(&self) -> Result<()> {
            if self.is_cancelled() { Err(self.error()) } else { Ok(()) }
        }

        #[cold]
        fn error(&self) -> Error {
            let (kind, message) = if self.cancelled.load(Ordering::Relaxed) {
                (ErrorKind::Cancelled, "the run was cancelled")
            } else {
                (ErrorKind::DeadlineExceeded, "the deadline of the run has passed")
            };
            Error::new(kind, message)
                .note("nothing of the run took effect")
                .help("give the program another token, or none, to run it again: `.set_cancel_token(None)`")
        }
    }
}
