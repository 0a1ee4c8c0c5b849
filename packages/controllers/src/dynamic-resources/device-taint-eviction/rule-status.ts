import { deviceTaintRulesV1beta2 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import type { Clock } from '@oarlock/primitives/clock';
import type { Client } from '@oarlock/spi/client';
import type { ReconcileResult } from '@oarlock/spi/controller';

const type = 'EvictionInProgress';
/** Minimum interval between updates of a condition in milliseconds: many pods may be evicted in a row. */
const minUpdateIntervalMs = 10_000;

/** The effects of a DeviceTaintRule with the effect NoExecute, or the effects that another rule would have with NoExecute. */
export interface RuleEffects {
  /** Number of pods to evict; the next field is the number of namespaces of these pods. */
  readonly pods: number;
  readonly namespaces: number;
  /** Number of selected devices in ResourceSlices; the next field is the number in claim allocations. */
  readonly published: number;
  readonly allocated: number;
}

const formatCount = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`;

/**
 * Sets the EvictionInProgress condition of DeviceTaintRules: the progress of evictions, or for a rule without NoExecute the evictions that
 * NoExecute would cause (KEP-5055).
 */
export class RuleStatus {
  readonly #clock: Clock;
  readonly #effectsOf: (rule: DeviceTaintRule) => RuleEffects;
  /** Number of pods evicted since this process started, by uid of the DeviceTaintRule. */
  readonly #evicted = new Map<string, number>();

  constructor(clock: Clock, effectsOf: (rule: DeviceTaintRule) => RuleEffects) {
    this.#clock = clock;
    this.#effectsOf = effectsOf;
  }

  recordEviction(uid: string, by: 1 | -1): void {
    this.#evicted.set(uid, (this.#evicted.get(uid) ?? 0) + by);
  }

  forget(uid: string): void {
    this.#evicted.delete(uid);
  }

  async reconcile(rule: DeviceTaintRule, client: Client): Promise<ReconcileResult | void> {
    const { uid = '', name = '', generation = 0 } = rule.metadata ?? {};
    const old = rule.status?.conditions?.find((condition) => condition.type === type);
    const now = this.#clock.now();
    const since = now - (parseTime(old?.lastTransitionTime ?? '') ?? 0);
    if (old?.observedGeneration === generation && since < minUpdateIntervalMs) return { requeueAfterMs: minUpdateIntervalMs - since };
    const next = { ...this.#condition(rule), type, observedGeneration: generation };
    if (old?.status === next.status && old.reason === next.reason && old.message === next.message && old.observedGeneration === generation)
      return undefined;
    const conditions: Condition[] = [
      ...(rule.status?.conditions ?? []).filter((condition) => condition.type !== type),
      { ...next, lastTransitionTime: formatTime(now) },
    ];
    try {
      await client.patch(
        deviceTaintRulesV1beta2,
        { name },
        'merge',
        { metadata: { uid }, status: { conditions } },
        { subresource: 'status' },
      );
    } catch (error) {
      if (!isStatus(error, 'NotFound', 'Conflict')) throw error;
    }
    return undefined;
  }

  #condition(rule: DeviceTaintRule): Pick<Condition, 'status' | 'reason' | 'message'> {
    const evicted = this.#evicted.get(rule.metadata?.uid ?? '') ?? 0;
    const suffix = evicted === 0 ? [] : [`${formatCount(evicted, 'pod', 'pods')} evicted since starting the controller.`];
    const condition = (status: 'True' | 'False', reason: string, ...text: string[]) => ({
      status,
      reason,
      message: [...text, ...suffix].join(' '),
    });
    const { effect } = rule.spec.taint;
    if (effect !== 'NoExecute' && effect !== 'None')
      return condition('False', 'OtherEffect', 'Eviction only happens for the NoExecute effect.');
    const { pods, namespaces, published, allocated } = this.#effectsOf(rule);
    const where = formatCount(namespaces, 'namespace', 'different namespaces');
    if (effect === 'None')
      return condition(
        'False',
        'NoEffect',
        `${formatCount(published, 'published device', 'published devices')} selected.`,
        `${formatCount(allocated, 'allocated device', 'allocated devices')} selected.`,
        `${formatCount(pods, 'pod', 'pods')} would be evicted in ${where} if the effect was NoExecute.`,
        'This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.',
      );
    if (pods > 0)
      return condition('True', 'PodsPendingEviction', `${formatCount(pods, 'pod needs', 'pods need')} to be evicted in ${where}.`);
    return condition('False', evicted > 0 ? 'Completed' : 'NotStarted');
  }
}
