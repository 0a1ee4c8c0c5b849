import { connect } from 'node:net';
import { goErrorText, joinHostPort } from '@oarlock/primitives/net/go-error-text';
import { failed, succeeded, type AttemptOptions, type ProbeAttemptResult } from './probe-result.ts';

/** Probes a TCP port. An accepted connection is a success. */
export function probeTcp(
  { host, port }: { readonly host: string; readonly port: number },
  { timeoutMs, clock, signal }: AttemptOptions,
): Promise<ProbeAttemptResult> {
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
    const timer = clock.after(timeoutMs, () => settle(() => resolve(failed(`dial tcp ${joinHostPort(host, port)}: i/o timeout`))));
    signal.addEventListener('abort', abort, { once: true });
    socket.once('connect', () => settle(() => resolve(succeeded())));
    socket.once('error', (error) => settle(() => resolve(failed(goErrorText(error)))));
  });
}
