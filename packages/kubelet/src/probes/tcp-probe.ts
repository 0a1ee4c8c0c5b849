import { connect } from 'node:net';
import type { Clock } from '@oarlock/kernel/clock';
import { describeDial, failed, succeeded, type ProbeOutcome } from './probe-outcome.ts';

/** A connection that is accepted is a success. */
export function probeTcp(host: string, port: number, timeoutMs: number, clock: Clock, signal: AbortSignal): Promise<ProbeOutcome> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = connect({ host, port });
    const settle = (end: () => void) => {
      timer.cancel();
      signal.removeEventListener('abort', abort);
      socket.destroy();
      end();
    };
    const abort = () => settle(() => reject(signal.reason));
    const timer = clock.after(timeoutMs, () =>
      settle(() => resolve(failed(`dial tcp ${host.includes(':') ? `[${host}]` : host}:${port}: i/o timeout`))),
    );
    signal.addEventListener('abort', abort, { once: true });
    socket.once('connect', () => settle(() => resolve(succeeded())));
    socket.once('error', (error) => settle(() => resolve(failed(describeDial(error, host, port)))));
  });
}
