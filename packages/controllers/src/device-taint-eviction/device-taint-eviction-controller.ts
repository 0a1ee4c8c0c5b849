import { jsonEqual } from '@oarlock/api/json';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { deviceTaintRulesV1beta2, pods as podResource, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod, Taint } from '@oarlock/api/types/core-v1';
import type { Device, DeviceRequestAllocationResult, DeviceTaint, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { byConsumer, consumersOf } from '../claims-by-consumer.ts';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { ServedResources } from '@oarlock/client/served-resources';
import { tolerates } from '../tolerations.ts';
import { whenServed } from '../when-served.ts';
import { RuleStatus, type RuleEffects } from './rule-status.ts';

const byPool = 'claims-of-pool';
const ofPool = 'slices-of-pool';
const poolText = (driver: string, pool: string) => `${driver} ${pool}`;
const resultsOf = ({ status }: ResourceClaim): readonly DeviceRequestAllocationResult[] => status?.allocation?.devices?.results ?? [];

/** Named by its spec, or made for its extended resources. */
const usesClaims = ({ spec, status }: Pod) => (spec?.resourceClaims ?? []).length > 0 || status?.extendedResourceClaimStatus !== undefined;

interface Parts {
  readonly claims: Informer<ResourceClaim>;
  readonly slices: Informer<ResourceSlice>;
  readonly pods: Informer<Pod>;
  readonly rules: () => Informer<DeviceTaintRule>;
  readonly served: ServedResources;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A taint of a device, and the rule that it comes from; none: the driver says so. */
interface Tainted {
  readonly taint: DeviceTaint;
  readonly rule?: DeviceTaintRule;
}

/** Keys of rules begin with it; others are claims. */
const ruleKey = 'rule: ';
const isSelected = ({ spec }: DeviceTaintRule, driver: string, pool: string, device: string): boolean => {
  const { deviceSelector: wanted = {} } = spec;
  const fits = (selected: string | undefined, is: string) => selected === undefined || selected === is;
  return fits(wanted.driver, driver) && fits(wanted.pool, pool) && fits(wanted.device, device);
};

/**
 * Deletes pods that use a device with a NoExecute taint which their claim does not tolerate, or no longer does (KEP-5055), and says on the rules that
 * ask for it how far that is. The key is the claim, or the rule.
 */
export class DeviceTaintEvictionController implements Controller {
  readonly name = 'device-taint-eviction';
  readonly watches;
  readonly #parts: Parts;
  readonly #status: RuleStatus;
  #rules: Informer<DeviceTaintRule> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#status = new RuleStatus(parts.clock, (rule) => this.#effectsOf(rule));
    const { claims, slices, pods } = parts;
    claims.addIndex(byPool, (claim) => [...new Set(resultsOf(claim).map(({ driver, pool }) => poolText(driver, pool)))]);
    claims.addIndex(byConsumer, consumersOf);
    slices.addIndex(ofPool, ({ spec }) => [poolText(spec.driver, spec.pool.name)]);
    this.watches = [
      watch(claims, (claim) => (resultsOf(claim).length > 0 ? [objectKey(claim), ...this.#rulesOf(claim)] : [])),
      watch(slices, ({ spec }, old) =>
        old !== undefined && old.spec === spec ? [] : claims.byIndex(byPool, poolText(spec.driver, spec.pool.name)).map(objectKey),
      ),
      // a claim may be reserved for a pod before it is known where it runs; what goes counts for the rules
      watch(pods, (pod, old) => {
        const { uid = '', deletionTimestamp } = pod.metadata ?? {};
        if (!pod.spec?.nodeName || !usesClaims(pod)) return [];
        const own = claims.byIndex(byConsumer, uid);
        if (pod.spec.nodeName !== old?.spec?.nodeName) return own.flatMap((claim) => [objectKey(claim), ...this.#rulesOf(claim)]);
        return deletionTimestamp === old?.metadata?.deletionTimestamp ? [] : own.flatMap((claim) => this.#rulesOf(claim));
      }),
    ];
  }

  follow(add: (watch: Watch) => () => void): () => void {
    const { served, log, claims, rules } = this.#parts;
    return whenServed(
      served,
      deviceTaintRulesV1beta2,
      log,
      () => {
        this.#rules = rules();
        return watch(this.#rules, (rule, old) => {
          // what is said of it changes nothing
          if (old !== undefined && jsonEqual(old.spec, rule.spec)) return [];
          if (this.#rules?.get(objectKey(rule)) === undefined) this.#status.forget(rule.metadata?.uid ?? '');
          const allocated = claims.list().flatMap((claim) => (resultsOf(claim).length > 0 ? [objectKey(claim)] : []));
          return [...allocated, `${ruleKey}${rule.metadata?.name ?? ''}`];
        });
      },
      add,
    );
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(ruleKey)) {
      const rule = this.#rules?.get(key.slice(ruleKey.length) as ObjectKey);
      return rule && this.#status.reconcile(rule, client);
    }
    const { claims, clock } = this.#parts;
    const claim = claims.get(key);
    if (claim === undefined) return undefined;
    const { until, rules } = this.#endOf(claim);
    if (until === undefined) return undefined;
    if (until > clock.now()) return { requeueAfterMs: until - clock.now() };
    for (const pod of this.#usersOf(claim)) {
      this.#parts.recorder.event(pod, 'Normal', 'DeviceTaintManagerEviction', 'Marking for deletion');
      // counted first: that it goes is heard of before its deletion is answered
      const count = (by: 1 | -1) => {
        for (const { metadata } of rules) this.#status.evicted(metadata?.uid ?? '', by);
      };
      count(1);
      if (!(await this.#evict(pod, client))) count(-1);
    }
    return undefined;
  }

  /** The keys of the rules that a claim has devices of. */
  #rulesOf(claim: ResourceClaim): readonly string[] {
    const about = (rule: DeviceTaintRule) => resultsOf(claim).some(({ driver, pool, device }) => isSelected(rule, driver, pool, device));
    return (this.#rules?.list() ?? []).flatMap((rule) => (about(rule) ? [`${ruleKey}${rule.metadata?.name ?? ''}`] : []));
  }

  /** The pods that use a claim on their node, as long as they are to stay. */
  #usersOf({ metadata, status }: ResourceClaim): readonly Pod[] {
    return (status?.reservedFor ?? []).flatMap(({ resource, name, uid }) => {
      const pod = resource === 'pods' ? this.#parts.pods.get(`${metadata?.namespace}/${name}`) : undefined;
      return pod?.metadata?.uid !== uid || !pod.spec?.nodeName || isTerminating(pod) || isTerminal(pod) ? [] : [pod];
    });
  }

  /** When the first of its devices is no longer to be used, in milliseconds since the epoch; undefined: never. And the rules that say so. */
  #endOf(claim: ResourceClaim): { readonly until: number | undefined; readonly rules: readonly DeviceTaintRule[] } {
    let until: number | undefined;
    const rules = new Set<DeviceTaintRule>();
    for (const result of resultsOf(claim)) {
      for (const { taint, rule } of this.#taintsOf(result)) {
        const end = taint.effect === 'NoExecute' ? endBy(taint, result) : undefined;
        if (end === undefined) continue;
        until = Math.min(until ?? Number.POSITIVE_INFINITY, end);
        if (rule !== undefined) rules.add(rule);
      }
    }
    return { until, rules: [...rules] };
  }

  *#taintsOf({ driver, pool, device }: DeviceRequestAllocationResult): Generator<Tainted> {
    for (const each of this.#newest(driver, pool)) if (each.name === device) for (const taint of each.taints ?? []) yield { taint };
    for (const rule of this.#rules?.list() ?? []) if (isSelected(rule, driver, pool, device)) yield { taint: rule.spec.taint, rule };
  }

  /** The devices of a pool: what an older generation says is on its way out. */
  *#newest(driver: string, pool: string): Generator<Device> {
    const slices = this.#parts.slices.byIndex(ofPool, poolText(driver, pool));
    const newest = Math.max(...slices.map(({ spec }) => spec.pool.generation));
    for (const { spec } of slices) if (spec.pool.generation === newest) yield* spec.devices ?? [];
  }

  #effectsOf(rule: DeviceTaintRule): RuleEffects {
    const { claims, slices } = this.#parts;
    const taint = { ...rule.spec.taint, effect: 'NoExecute' };
    const going = new Set<Pod>();
    let [published, allocated] = [0, 0];
    for (const claim of claims.list())
      for (const result of resultsOf(claim)) {
        if (!isSelected(rule, result.driver, result.pool, result.device)) continue;
        allocated++;
        if (endBy(taint, result) !== undefined) for (const pod of this.#usersOf(claim)) going.add(pod);
      }
    const pools = new Map(slices.list().map(({ spec: { driver, pool } }) => [poolText(driver, pool.name), [driver, pool.name] as const]));
    for (const [driver, pool] of pools.values())
      for (const { name } of this.#newest(driver, pool)) if (isSelected(rule, driver, pool, name)) published++;
    return { pods: going.size, namespaces: new Set([...going].map(({ metadata }) => metadata?.namespace)).size, published, allocated };
  }

  /** Whether it was there to be evicted. */
  async #evict(pod: Pod, client: Client): Promise<boolean> {
    try {
      if (!pod.status?.conditions?.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True')) {
        const condition = {
          type: 'DisruptionTarget',
          status: 'True',
          reason: 'DeletionByDeviceTaintManager',
          message: 'Device Taint manager: deleting due to NoExecute taint',
          lastTransitionTime: formatTime(this.#parts.clock.now()),
        };
        const conditions = [...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget'), condition];
        await client.update(podResource, { ...typed(podResource, pod), status: { ...pod.status, conditions } }, { subresource: 'status' });
      }
      await client.delete(podResource, nameOf(pod), { preconditions: { uid: pod.metadata?.uid ?? '' } });
      return true;
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      return false;
    }
  }
}

/** When what a claim holds may not be used any more because of a taint, in milliseconds since the epoch; undefined: never. */
function endBy(taint: DeviceTaint, { tolerations = [] }: DeviceRequestAllocationResult): number | undefined {
  const used = tolerations.filter((toleration) => tolerates(toleration, taint as Taint));
  if (used.length === 0) return 0;
  const seconds = used.flatMap(({ tolerationSeconds }) => (tolerationSeconds === undefined ? [] : [Math.max(0, tolerationSeconds)]));
  return seconds.length === 0 ? undefined : (parseTime(taint.timeAdded ?? '') ?? 0) + Math.min(...seconds) * 1000;
}

export default Controllers.plugin({
  id: 'controller-device-taint-eviction',
  declares: { loop: 'device-taint-eviction' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ informers, events, client }, { clock, log }) =>
    new DeviceTaintEvictionController({
      claims: informers.of(resourceClaims),
      slices: informers.of(resourceSlices),
      pods: informers.of(podResource),
      rules: () => informers.of(deviceTaintRulesV1beta2),
      served: new ServedResources(client),
      recorder: events.recorder('device-taint-eviction'),
      clock,
      log,
    }),
});
