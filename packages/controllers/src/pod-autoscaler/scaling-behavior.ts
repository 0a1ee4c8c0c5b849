import type { HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules } from '@oarlock/api/types/autoscaling-v2';

interface Recommendation {
  readonly replicas: number;
  readonly at: number;
}
interface ScaleEvent {
  readonly change: number;
  readonly at: number;
}
export interface Reason {
  readonly reason: string;
  readonly message: string;
}
export interface Bounds {
  readonly current: number;
  readonly desired: number;
  readonly min: number;
  readonly max: number;
}
export interface LimitedReplicas {
  readonly replicas: number;
  readonly limited: boolean;
  readonly condition: Reason;
}

const withinLimits: Reason = { reason: 'DesiredWithinRange', message: 'the desired count is within the acceptable range' };
const tooMany: Reason = { reason: 'TooManyReplicas', message: 'the desired replica count is more than the maximum replica count' };
const tooFew: Reason = { reason: 'TooFewReplicas', message: 'the desired replica count is less than the minimum replica count' };
const upLimit: Reason = { reason: 'ScaleUpLimit', message: 'the desired replica count is increasing faster than the maximum scale rate' };
const downLimit: Reason = {
  reason: 'ScaleDownLimit',
  message: 'the desired replica count is decreasing faster than the maximum scale rate',
};

/** The current replicas, the behavior of the autoscaler, and the time in milliseconds. */
export interface ScalingRequest {
  readonly current: number;
  readonly behavior: HorizontalPodAutoscalerBehavior | undefined;
  readonly nowMs: number;
}

/** The new replicas, the behavior of the autoscaler, and the time in milliseconds. */
export interface ScaleEventRecord {
  readonly to: number;
  readonly behavior: HorizontalPodAutoscalerBehavior | undefined;
  readonly nowMs: number;
}

/** The recent recommendations and scale events of one HorizontalPodAutoscaler, with times of the monotonic clock. */
export class ScalingHistory {
  readonly #downWindowMs: number;
  #recommendations: Recommendation[] = [];
  #up: ScaleEvent[] = [];
  #down: ScaleEvent[] = [];

  /** `downWindowMs` is the stabilization window for scale-down if the behavior does not set one. */
  constructor(downWindowMs: number) {
    this.#downWindowMs = downWindowMs;
  }

  /** Records the initial number of replicas as the first recommendation. */
  begin(replicas: number, nowMs: number): void {
    if (this.#recommendations.length === 0) this.#recommendations.push({ replicas, at: nowMs });
  }

  /** Stabilizes a recommendation: for scale-down, returns the highest recommendation in the stabilization window; for scale-up, the lowest. */
  stabilize(desired: number, { current, behavior, nowMs }: ScalingRequest): { readonly replicas: number; readonly condition: Reason } {
    const upMs = (behavior?.scaleUp?.stabilizationWindowSeconds ?? 0) * 1000;
    const downMs =
      behavior?.scaleDown?.stabilizationWindowSeconds === undefined
        ? this.#downWindowMs
        : behavior.scaleDown.stabilizationWindowSeconds * 1000;
    let lowest = desired;
    let highest = desired;
    for (const { replicas, at } of this.#recommendations) {
      if (at > nowMs - upMs) lowest = Math.min(lowest, replicas);
      if (at > nowMs - downMs) highest = Math.max(highest, replicas);
    }
    const longest = Math.max(upMs, downMs);
    this.#recommendations = [...this.#recommendations.filter(({ at }) => at > nowMs - longest), { replicas: desired, at: nowMs }];
    const replicas = behavior === undefined ? highest : Math.min(Math.max(current, lowest), highest);
    if (replicas === desired)
      return { replicas, condition: { reason: 'ReadyForNewScale', message: 'recommended size matches current size' } };
    const condition =
      replicas < desired
        ? {
            reason: 'ScaleUpStabilized',
            message: 'recent recommendations were lower than current one, applying the lowest recent recommendation',
          }
        : {
            reason: 'ScaleDownStabilized',
            message: 'recent recommendations were higher than current one, applying the highest recent recommendation',
          };
    return { replicas, condition };
  }

  /** Records a change of the replicas for the policies of `behavior`. Without a behavior, nothing is recorded: a behavior that is added later starts anew. */
  recordScaleEvent(from: number, { to, behavior, nowMs }: ScaleEventRecord): void {
    if (behavior === undefined) return;
    const longest = Math.max(
      0,
      ...[behavior.scaleUp, behavior.scaleDown].flatMap((rules) =>
        (rules?.policies ?? []).map(({ periodSeconds }) => periodSeconds * 1000),
      ),
    );
    const keep = (events: readonly ScaleEvent[]) => events.filter(({ at }) => at > nowMs - longest);
    this.#up = keep(this.#up);
    this.#down = keep(this.#down);
    if (to > from) this.#up.push({ change: to - from, at: nowMs });
    if (to < from) this.#down.push({ change: from - to, at: nowMs });
  }

  /**
   * Limits the desired replicas to minReplicas, maxReplicas and the scaling policies of `behavior`. Without `behavior`, a scale-up is limited to
   * twice the current replicas or to 4, whichever is larger.
   */
  limit({ current, desired, min, max }: Bounds, behavior: HorizontalPodAutoscalerBehavior | undefined, nowMs: number): LimitedReplicas {
    if (behavior === undefined) {
      const rateLimit = Math.max(2 * current, 4);
      if (desired < min) return { replicas: min, limited: true, condition: tooFew };
      if (desired > Math.min(max, rateLimit))
        return max > rateLimit
          ? { replicas: rateLimit, limited: true, condition: upLimit }
          : { replicas: max, limited: true, condition: tooMany };
      return { replicas: desired, limited: false, condition: withinLimits };
    }
    if (desired > current) {
      const rateLimit = Math.max(current, this.#limit(behavior.scaleUp, { current, sign: 1, nowMs }));
      if (desired > Math.min(max, rateLimit))
        return max > rateLimit
          ? { replicas: rateLimit, limited: true, condition: upLimit }
          : { replicas: max, limited: true, condition: tooMany };
    } else if (desired < current) {
      const rateLimit = Math.min(current, this.#limit(behavior.scaleDown, { current, sign: -1, nowMs }));
      if (desired < Math.max(min, rateLimit))
        return min < rateLimit
          ? { replicas: rateLimit, limited: true, condition: downLimit }
          : { replicas: min, limited: true, condition: tooFew };
    }
    return { replicas: desired, limited: false, condition: withinLimits };
  }

  /**
   * Returns the number of replicas up to (sign 1) or down to (sign -1) which the scaling policies permit scaling, relative to the replicas at the
   * start of each policy's period.
   */
  #limit(
    rules: HPAScalingRules | undefined,
    { current, sign, nowMs }: { readonly current: number; readonly sign: 1 | -1; readonly nowMs: number },
  ): number {
    if (rules?.selectPolicy === 'Disabled') return current;
    const limits = (rules?.policies ?? []).map(({ type, value, periodSeconds }: HPAScalingPolicy) => {
      const since = nowMs - periodSeconds * 1000;
      const sum = (events: readonly ScaleEvent[]) => events.reduce((total, { change, at }) => total + (at > since ? change : 0), 0);
      const start = current - sum(this.#up) + sum(this.#down);
      if (type === 'Pods') return start + sign * value;
      // the terms of upstream: another order of operations rounds to other numbers
      return sign === 1 ? Math.ceil(start * (1 + value / 100)) : Math.trunc(start * (1 - value / 100));
    });
    if (limits.length === 0) return sign === 1 ? Number.POSITIVE_INFINITY : 0;
    // the policy with the largest change, unless selectPolicy is Min
    return (rules?.selectPolicy === 'Min') === (sign === 1) ? Math.min(...limits) : Math.max(...limits);
  }
}
