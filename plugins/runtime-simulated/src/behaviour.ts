import { durationMs } from '@oarlock/api/duration';
import { RuntimeError } from '@oarlock/spi/runtime';

/** Annotations of a pod that say how its containers behave begin with this; `.CONTAINER` at the end makes one for a single container. */
export const annotationPrefix = 'simulated.oarlock.dev/';

/** How one container behaves. Times are milliseconds. */
export interface Behaviour {
  /** From start until it runs. */
  readonly startDelay: number;
  /** From running until it exits by itself; undefined: never. */
  readonly exitAfter: number | undefined;
  readonly exitCode: number;
  /** Only this many attempts exit; the ones after run on. */
  readonly exits: number;
  /** Probes fail before, counted from running. */
  readonly readyAfter: number;
  /** Probes fail from then on, counted from running; undefined: never. */
  readonly unhealthyAfter: number | undefined;
  /** From the stop signal until it exits; longer than the grace period means a kill. */
  readonly stopDelay: number;
  /** What it uses while it runs. */
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
    throw new RuntimeError(
      'InvalidArgument',
      `annotation ${annotationPrefix}${key}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  }
}

function count(annotations: Annotations, container: string, key: string, otherwise: number): number {
  const value = text(annotations, container, key);
  if (value === undefined) return otherwise;
  if (!/^\d{1,9}$/.test(value)) throw new RuntimeError('InvalidArgument', `annotation ${annotationPrefix}${key}: not a number: ${value}`);
  return Number(value);
}

/** @throws RuntimeError `InvalidArgument` for an annotation that cannot be read */
export function behaviourOf(annotations: Annotations, container: string, startDelay: number): Behaviour {
  return {
    startDelay: duration(annotations, container, 'start-delay') ?? startDelay,
    exitAfter: duration(annotations, container, 'exit-after'),
    exitCode: count(annotations, container, 'exit-code', 0),
    exits: count(annotations, container, 'exits', Number.POSITIVE_INFINITY),
    readyAfter: duration(annotations, container, 'ready-after') ?? 0,
    unhealthyAfter: duration(annotations, container, 'unhealthy-after'),
    stopDelay: duration(annotations, container, 'stop-delay') ?? 0,
    millicores: count(annotations, container, 'cpu-millicores', 1),
    memoryMib: count(annotations, container, 'memory-mib', 1),
    failCreate: text(annotations, container, 'fail-create'),
    failStart: text(annotations, container, 'fail-start'),
  };
}

export function failSandbox(annotations: Annotations): string | undefined {
  return annotations[`${annotationPrefix}fail-sandbox`];
}

/** Nothing said about it: most pods, which then share one object. */
export function isPlain(annotations: Annotations): boolean {
  for (const key in annotations) if (key.startsWith(annotationPrefix)) return false;
  return true;
}
