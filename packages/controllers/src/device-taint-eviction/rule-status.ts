import { deviceTaintRulesV1beta2 } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Condition } from '@oarlock/api/types/meta-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import type { Clock } from '@oarlock/kernel/clock';
import type { Client } from '@oarlock/spi/client';
import type { ReconcileResult } from '@oarlock/spi/controller';

const type = 'EvictionInProgress';
/** A condition is brought up to date no sooner: many pods may go one after the other. Milliseconds. */
const leastMs = 10_000;

/** What a rule does, or would do. */
export interface RuleEffects {
  /** Pods that have to go, or would have to, and in how many namespaces they are. */
  readonly pods: number;
  readonly namespaces: number;
  /** Devices that it is about: of slices, and of claims. */
  readonly published: number;
  readonly allocated: number;
}

const counted = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`;

/** Says on each DeviceTaintRule how far the evictions are that it asks for, or what it would do if it asked for them (KEP-5055). */
export class RuleStatus {
  readonly #clock: Clock;
  readonly #effectsOf: (rule: DeviceTaintRule) => RuleEffects;
  /** Since this process began, by uid of the rule. */
  readonly #evicted = new Map<string, number>();

  constructor(clock: Clock, effectsOf: (rule: DeviceTaintRule) => RuleEffects) {
    this.#clock = clock;
    this.#effectsOf = effectsOf;
  }

  evicted(uid: string, by: 1 | -1): void {
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
    if (old?.observedGeneration === generation && since < leastMs) return { requeueAfterMs: leastMs - since };
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
    const gone = this.#evicted.get(rule.metadata?.uid ?? '') ?? 0;
    const more = gone === 0 ? [] : [`${counted(gone, 'pod', 'pods')} evicted since starting the controller.`];
    const said = (status: 'True' | 'False', reason: string, ...text: string[]) => ({
      status,
      reason,
      message: [...text, ...more].join(' '),
    });
    const { effect } = rule.spec.taint;
    if (effect !== 'NoExecute' && effect !== 'None') return said('False', 'OtherEffect', 'Eviction only happens for the NoExecute effect.');
    const { pods, namespaces, published, allocated } = this.#effectsOf(rule);
    const where = counted(namespaces, 'namespace', 'different namespaces');
    if (effect === 'None')
      return said(
        'False',
        'NoEffect',
        `${counted(published, 'published device', 'published devices')} selected.`,
        `${counted(allocated, 'allocated device', 'allocated devices')} selected.`,
        `${counted(pods, 'pod', 'pods')} would be evicted in ${where} if the effect was NoExecute.`,
        'This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.',
      );
    if (pods > 0) return said('True', 'PodsPendingEviction', `${counted(pods, 'pod needs', 'pods need')} to be evicted in ${where}.`);
    return said('False', gone > 0 ? 'Completed' : 'NotStarted');
  }
}
