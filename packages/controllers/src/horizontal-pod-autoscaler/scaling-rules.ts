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
export interface Limited {
  readonly replicas: number;
  readonly limited: boolean;
  readonly why: Reason;
}

const within: Reason = { reason: 'DesiredWithinRange', message: 'the desired count is within the acceptable range' };
const tooMany: Reason = { reason: 'TooManyReplicas', message: 'the desired replica count is more than the maximum replica count' };
const tooFew: Reason = { reason: 'TooFewReplicas', message: 'the desired replica count is less than the minimum replica count' };
const upLimit: Reason = { reason: 'ScaleUpLimit', message: 'the desired replica count is increasing faster than the maximum scale rate' };
const downLimit: Reason = {
  reason: 'ScaleDownLimit',
  message: 'the desired replica count is decreasing faster than the maximum scale rate',
};

/** What one autoscaler has recommended and done lately: times of the monotonic clock. */
export class ScalingHistory {
  readonly #downWindowMs: number;
  #recommendations: Recommendation[] = [];
  #up: ScaleEvent[] = [];
  #down: ScaleEvent[] = [];

  /** `downWindowMs`: how long a fall is smoothed where no behaviour says it. */
  constructor(downWindowMs: number) {
    this.#downWindowMs = downWindowMs;
  }

  /** The first look sets the number from which a fall is slowed down. */
  begin(replicas: number, nowMs: number): void {
    if (this.#recommendations.length === 0) this.#recommendations.push({ replicas, at: nowMs });
  }

  /** Smooths a recommendation by the ones before: the highest of the window when it falls, the lowest when it rises. */
  stabilize(
    desired: number,
    current: number,
    behavior: HorizontalPodAutoscalerBehavior | undefined,
    nowMs: number,
  ): { readonly replicas: number; readonly why: Reason } {
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
    if (replicas === desired) return { replicas, why: { reason: 'ReadyForNewScale', message: 'recommended size matches current size' } };
    const why =
      replicas < desired
        ? {
            reason: 'ScaleUpStabilized',
            message: 'recent recommendations were lower than current one, applying the lowest recent recommendation',
          }
        : {
            reason: 'ScaleDownStabilized',
            message: 'recent recommendations were higher than current one, applying the highest recent recommendation',
          };
    return { replicas, why };
  }

  scaled(from: number, to: number, behavior: HorizontalPodAutoscalerBehavior | undefined, nowMs: number): void {
    const longest = Math.max(
      0,
      ...[behavior?.scaleUp, behavior?.scaleDown].flatMap((rules) =>
        (rules?.policies ?? []).map(({ periodSeconds }) => periodSeconds * 1000),
      ),
    );
    const keep = (events: readonly ScaleEvent[]) => events.filter(({ at }) => at > nowMs - longest);
    this.#up = keep(this.#up);
    this.#down = keep(this.#down);
    if (to > from) this.#up.push({ change: to - from, at: nowMs });
    if (to < from) this.#down.push({ change: from - to, at: nowMs });
  }

  /** The recommendation within the bounds and the rates of the behaviour; without one at most twice as many, or four. */
  limit({ current, desired, min, max }: Bounds, behavior: HorizontalPodAutoscalerBehavior | undefined, nowMs: number): Limited {
    if (behavior === undefined) {
      const fast = Math.max(2 * current, 4);
      if (desired < min) return { replicas: min, limited: true, why: tooFew };
      if (desired > Math.min(max, fast))
        return max > fast ? { replicas: fast, limited: true, why: upLimit } : { replicas: max, limited: true, why: tooMany };
      return { replicas: desired, limited: false, why: within };
    }
    if (desired > current) {
      const fast = Math.max(current, this.#limit(behavior.scaleUp, current, 1, nowMs));
      if (desired > Math.min(max, fast))
        return max > fast ? { replicas: fast, limited: true, why: upLimit } : { replicas: max, limited: true, why: tooMany };
    } else if (desired < current) {
      const fast = Math.min(current, this.#limit(behavior.scaleDown, current, -1, nowMs));
      if (desired < Math.max(min, fast))
        return min < fast ? { replicas: fast, limited: true, why: downLimit } : { replicas: min, limited: true, why: tooFew };
    }
    return { replicas: desired, limited: false, why: within };
  }

  /** How far the policies let it go from what it was at the beginning of their periods. */
  #limit(rules: HPAScalingRules | undefined, current: number, sign: 1 | -1, nowMs: number): number {
    if (rules?.selectPolicy === 'Disabled') return current;
    const limits = (rules?.policies ?? []).map(({ type, value, periodSeconds }: HPAScalingPolicy) => {
      const since = nowMs - periodSeconds * 1000;
      const sum = (events: readonly ScaleEvent[]) => events.reduce((total, { change, at }) => total + (at > since ? change : 0), 0);
      const start = current - sum(this.#up) + sum(this.#down);
      if (type === 'Pods') return start + sign * value;
      return sign === 1 ? Math.ceil((start * (100 + value)) / 100) : Math.floor((start * (100 - value)) / 100);
    });
    if (limits.length === 0) return sign === 1 ? Number.POSITIVE_INFINITY : 0;
    // the policy of the largest change, unless the smallest is asked for
    return (rules?.selectPolicy === 'Min') === (sign === 1) ? Math.min(...limits) : Math.max(...limits);
  }
}
