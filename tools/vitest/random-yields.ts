import { eventLoop } from '@oarlock/primitives/concurrency/event-loop';

/**
 * Makes long work yield to the event loop at random instead of after some milliseconds, so that informers lag behind at every possible place, as they
 * do on a slow machine. `OARLOCK_RANDOM_YIELDS` is the probability.
 */
const probability = Number(process.env['OARLOCK_RANDOM_YIELDS']);
Object.defineProperty(Object.getPrototypeOf(eventLoop), 'shouldYield', { configurable: true, get: () => Math.random() < probability });
