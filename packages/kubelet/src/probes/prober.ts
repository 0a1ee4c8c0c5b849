import type { Container, EphemeralContainer, Probe } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import { RuntimeError, type RuntimeDriver } from '@oarlock/spi/runtime';
import { expand, newExpansionBudget } from '../pod-util/expansion.ts';
import { resolvePort } from '../pod-util/pods.ts';
import { probeGrpc } from './grpc-probe.ts';
import { httpTarget, probeHttp } from './http-probe.ts';
import { failed, succeeded, type ProbeAttemptResult } from './probe-result.ts';
import { probeTcp } from './tcp-probe.ts';

export type ProbeType = 'startup' | 'readiness' | 'liveness';

export interface ProbeTarget {
  readonly kind: ProbeType;
  readonly probe: Probe;
  readonly container: Container | EphemeralContainer;
  readonly containerId: string;
  readonly podIP: string;
  readonly driver: RuntimeDriver;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const maxOutput = 10 * 1024;

/** Makes one attempt of a probe. The promise rejects only if the signal aborts. */
export async function runProbe(target: ProbeTarget): Promise<ProbeAttemptResult> {
  const { probe, container, podIP, driver, clock, signal, kind } = target;
  const seconds = probe.timeoutSeconds ?? 1;
  const options = { timeoutMs: seconds * 1000, clock, signal };
  try {
    if (driver.traits.simulated) return await runCommand(target, ['oarlock.dev/probe', kind], seconds);
    if (probe.exec) return await runCommand(target, expandAll(container, probe.exec.command ?? []), seconds);
    if (probe.httpGet) {
      const { httpGet } = probe;
      return await probeHttp(httpTarget(httpGet, httpGet.host || podIP, resolvePort(container, httpGet.port)), options);
    }
    if (probe.tcpSocket)
      return await probeTcp({ host: probe.tcpSocket.host || podIP, port: resolvePort(container, probe.tcpSocket.port) }, options);
    if (probe.grpc) return await probeGrpc({ host: podIP, port: probe.grpc.port, service: probe.grpc.service ?? '' }, options);
    return { result: 'error', output: 'missing probe handler' };
  } catch (error) {
    signal.throwIfAborted();
    return { result: 'error', output: errorText(error) };
  }
}

function expandAll(container: Container | EphemeralContainer, command: readonly string[]): readonly string[] {
  const plain = new Map((container.env ?? []).flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const])));
  const budget = newExpansionBudget();
  return command.map((word) => expand(word, (name) => plain.get(name), budget));
}

async function runCommand(
  { driver, containerId, signal }: ProbeTarget,
  command: readonly string[],
  seconds: number,
): Promise<ProbeAttemptResult> {
  try {
    const { stdout, stderr, exitCode } = await driver.execSync(containerId, command, seconds, { signal });
    const output = Buffer.concat([stdout, stderr]).toString('utf8').slice(0, maxOutput);
    return exitCode === 0 ? succeeded(output) : failed(output);
  } catch (error) {
    if (error instanceof RuntimeError && error.code === 'DeadlineExceeded')
      return failed(`command timed out: "${command.join(' ')}" timed out after ${seconds}s`);
    throw error;
  }
}
