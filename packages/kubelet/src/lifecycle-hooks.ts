import type { Container, EphemeralContainer, LifecycleHandler } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { resolvePort } from './pods.ts';
import { httpTarget, probeHttp } from './probes/http-probe.ts';

export interface HookTarget {
  readonly driver: RuntimeDriver;
  readonly container: Container | EphemeralContainer;
  readonly containerId: string;
  readonly podIP: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Milliseconds; 0: as long as it takes. */
  readonly timeoutMs: number;
}

/** A hook has no limit of its own, but no hook is waited for longer. */
const longestMs = 24 * 3600 * 1000;

/** Runs a postStart or preStop handler to its end. @throws Error when it fails */
export async function runHook(handler: LifecycleHandler, target: HookTarget): Promise<void> {
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
      : await probeHttp(url, timeoutMs || longestMs, clock, signal);
    if (result !== 'success') throw new Error(output);
  } else if (handler.sleep) {
    await clock.sleep(Math.min(handler.sleep.seconds * 1000, timeoutMs || longestMs), signal);
  } else throw new Error('invalid handler');
}
