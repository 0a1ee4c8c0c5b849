import type { Container, EphemeralContainer, LifecycleHandler } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { resolvePort } from '../../pod-util/pods.ts';
import { httpTarget, probeHttp } from '../../probes/http-probe.ts';

export interface LifecycleHandlerTarget {
  readonly driver: RuntimeDriver;
  readonly container: Container | EphemeralContainer;
  readonly containerId: string;
  readonly podIP: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The timeout in milliseconds; 0 for no timeout. */
  readonly timeoutMs: number;
}

/** The timeout of HTTP and sleep handlers if `timeoutMs` is 0. */
const longestMs = 24 * 3600 * 1000;

/** Runs a postStart or preStop handler. @throws Error if the handler fails */
export async function runLifecycleHandler(handler: LifecycleHandler, target: LifecycleHandlerTarget): Promise<void> {
  const { driver, container, containerId, podIP, clock, signal, timeoutMs } = target;
  if (handler.exec) {
    const command = handler.exec.command ?? [];
    const { exitCode, stdout, stderr } = await driver.execSync(containerId, command, Math.ceil(timeoutMs / 1000), { signal });
    if (exitCode !== 0)
      throw new Error(
        `command '${command.join(' ')}' exited with ${exitCode}: ${Buffer.concat([stdout, stderr]).toString('utf8').slice(0, 1024)}`,
      );
  } else if (handler.httpGet) {
    const { httpGet } = handler;
    const url = httpTarget(httpGet, httpGet.host || podIP, httpGet.port === '' ? 80 : resolvePort(container, httpGet.port));
    const { result, output } = driver.traits.simulated
      ? { result: 'success', output: '' }
      : await probeHttp(url, { timeoutMs: timeoutMs || longestMs, clock, signal });
    if (result !== 'success') throw new Error(output);
  } else if (handler.sleep) {
    await clock.sleep(Math.min(handler.sleep.seconds * 1000, timeoutMs || longestMs), signal);
  } else throw new Error('invalid handler');
}
