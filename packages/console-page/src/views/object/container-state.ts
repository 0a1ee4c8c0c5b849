import { ageOf } from '../../components/age.ts';
import { text } from '../../text/en.ts';
import type { HealthText } from './health.ts';
import type { ContainerState, ContainerStatus } from './workload-kinds.ts';

const words = text.container;

/** How a container ended. */
function endText(
  { reason = words.terminated, exitCode = 0, signal = 0, finishedAt }: NonNullable<ContainerState['terminated']>,
  now: number,
): string {
  const cause = signal !== 0 ? words.signal(signal) : words.exitCode(exitCode);
  return [reason, cause, ...(finishedAt === undefined ? [] : [text.time.ago(ageOf(finishedAt, now))])].join(', ');
}

/** Returns the state of a container as `kubectl describe` prints it. Undefined until the kubelet has reported one. */
export function stateOf({ state = {}, ready = false }: ContainerStatus, now: number): HealthText | undefined {
  const { waiting, running, terminated } = state;
  if (terminated !== undefined) return { health: terminated.exitCode === 0 ? 'ok' : 'error', label: endText(terminated, now) };
  if (running !== undefined) {
    const label = words.running(ageOf(running.startedAt, now));
    return ready ? { health: 'ok', label } : { health: 'warning', label: `${label}, ${words.notReady}` };
  }
  if (waiting === undefined) return undefined;
  const { reason = words.waiting } = waiting;
  return { health: /Creating|Initializing/.test(reason) ? 'pending' : 'error', label: reason };
}

/** Returns what else is known about the state: the messages of the kubelet and of the program, restarts, and how the previous instance ended. */
export function stateDetails({ state = {}, lastState, restartCount = 0 }: ContainerStatus, now: number): readonly string[] {
  const last = lastState?.terminated;
  return [
    state.waiting?.message,
    state.terminated?.message,
    restartCount > 0 ? words.restarts(restartCount) : undefined,
    last === undefined ? undefined : words.last(endText(last, now)),
    last?.message,
  ].filter((line) => line !== undefined && line !== '') as readonly string[];
}
