import { durationMs } from '@oarlock/api/values/duration';
import { RuntimeError } from '@oarlock/spi/runtime';
import { errorText } from '@oarlock/primitives/error-text';

/** The prefix of annotations that determine the behavior of containers. A key with the suffix `.CONTAINER` applies to one container. */
export const annotationPrefix = 'simulated.oarlock.dev/';

/** The behavior of one container. Times are milliseconds. */
export interface ContainerBehavior {
  /** The time from the start of a container until it runs. */
  readonly startDelay: number;
  /** The time from running until the container exits; undefined if it does not exit. */
  readonly exitAfter: number | undefined;
  readonly exitCode: number;
  /** The number of attempts that exit. Later attempts keep running. */
  readonly exits: number;
  /** Probes fail until this time, counted from running. */
  readonly readyAfter: number;
  /** Probes fail from this time, counted from running; undefined if they do not. */
  readonly unhealthyAfter: number | undefined;
  /** The time from the stop signal until the container exits. If it exceeds the grace period, the container is killed. */
  readonly stopDelay: number;
  /** The CPU usage of the running container in millicores. */
  readonly millicores: number;
  readonly memoryMib: number;
  readonly failCreate: string | undefined;
  readonly failStart: string | undefined;
}

type Annotations = Readonly<Record<string, string>>;

function text(annotations: Annotations, container: string, key: string): string | undefined {
  return annotations[`${annotationPrefix}${key}.${container}`] ?? annotations[annotationPrefix + key];
}

function duration(annotations: Annotations, container: string, key: string): number | undefined {
  const value = text(annotations, container, key);
  if (value === undefined) return undefined;
  try {
    return durationMs(value);
  } catch (cause) {
    throw new RuntimeError('InvalidArgument', `annotation ${annotationPrefix}${key}: ${errorText(cause)}`, { cause });
  }
}

function count(
  annotations: Annotations,
  { container, key, fallback }: { readonly container: string; readonly key: string; readonly fallback: number },
): number {
  const value = text(annotations, container, key);
  if (value === undefined) return fallback;
  if (!/^\d{1,9}$/.test(value)) throw new RuntimeError('InvalidArgument', `annotation ${annotationPrefix}${key}: not a number: ${value}`);
  return Number(value);
}

/** Reads the behavior of a container from annotations. @throws RuntimeError `InvalidArgument` for an invalid annotation */
export function containerBehavior(annotations: Annotations, container: string, startDelay: number): ContainerBehavior {
  return {
    startDelay: duration(annotations, container, 'start-delay') ?? startDelay,
    exitAfter: duration(annotations, container, 'exit-after'),
    exitCode: count(annotations, { container, key: 'exit-code', fallback: 0 }),
    exits: count(annotations, { container, key: 'exits', fallback: Number.POSITIVE_INFINITY }),
    readyAfter: duration(annotations, container, 'ready-after') ?? 0,
    unhealthyAfter: duration(annotations, container, 'unhealthy-after'),
    stopDelay: duration(annotations, container, 'stop-delay') ?? 0,
    millicores: count(annotations, { container, key: 'cpu-millicores', fallback: 1 }),
    memoryMib: count(annotations, { container, key: 'memory-mib', fallback: 1 }),
    failCreate: text(annotations, container, 'fail-create'),
    failStart: text(annotations, container, 'fail-start'),
  };
}

export function sandboxFailure(annotations: Annotations): string | undefined {
  return annotations[`${annotationPrefix}fail-sandbox`];
}

/** Returns true if no annotation determines the behavior. Most pods have none, and share one object. */
export function hasDefaultBehavior(annotations: Annotations): boolean {
  for (const key in annotations) if (key.startsWith(annotationPrefix)) return false;
  return true;
}
