import { currentSlices } from '@oarlock/api/component-helpers/resource-slices';
import { toleratesDeviceTaint } from '@oarlock/api/component-helpers/tolerations';
import { jsonEqual } from '@oarlock/api/json/json';
import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { deviceTaintRulesV1beta2, pods as podResource, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/values/time';
import type { Pod } from '@oarlock/api/types/core-v1';
import type { DeviceRequestAllocationResult, DeviceTaint, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import {
  Controllers,
  watch,
  type Controller,
  type ReconcileContext,
  type ReconcileResult,
  type ControllerWatch,
} from '@oarlock/spi/controller';
import { z } from 'zod';
import { claimsByConsumerIndex, consumerUids } from '../../indexes/resource-claims-by-consumer.ts';
import { isTerminal, isTerminating } from '../../pods/pod-state.ts';
import { objectName, withTypeMeta } from '../../objects/object-identity.ts';
import { ResourceDiscovery } from '@oarlock/client/resource-discovery';
import { watchWhenServed } from '../../discovery/watch-when-served.ts';
import { RuleStatus, type RuleEffects } from './rule-status.ts';

const claimsByPoolIndex = 'claims-of-pool';
const slicesByPoolIndex = 'slices-of-pool';
const poolKey = (driver: string, pool: string) => `${driver} ${pool}`;
/** The key of the slices of a pool that are local to a node; without a node, of those that are not local. */
const localPoolKey = ({ driver, pool, nodeName = '' }: Pool) => `${poolKey(driver, pool)} ${nodeName}`;
const resultsOf = ({ status }: ResourceClaim): readonly DeviceRequestAllocationResult[] => status?.allocation?.devices?.results ?? [];

/** Returns true if the pod references ResourceClaims in its spec or has a ResourceClaim for extended resources. */
const usesClaims = ({ spec, status }: Pod) => (spec?.resourceClaims ?? []).length > 0 || status?.extendedResourceClaimStatus !== undefined;

interface DeviceTaintEvictionControllerOptions {
  readonly claims: Informer<ResourceClaim>;
  readonly slices: Informer<ResourceSlice>;
  readonly pods: Informer<Pod>;
  readonly rules: () => Informer<DeviceTaintRule>;
  readonly discovery: ResourceDiscovery;
  readonly recorder: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Pool {
  readonly driver: string;
  readonly pool: string;
  readonly nodeName?: string | undefined;
}
const poolOf = ({ spec: { driver, pool, nodeName } }: ResourceSlice): Pool => ({ driver, pool: pool.name, nodeName });

/** A device taint and its DeviceTaintRule; `rule` is undefined if the taint is published by the driver. */
interface DeviceTaintOfRule {
  readonly taint: DeviceTaint;
  readonly rule?: DeviceTaintRule;
}

/** Prefix of the work queue keys of DeviceTaintRules; all other keys are ResourceClaims. */
const rulePrefix = 'rule: ';
const isSelected = (
  { spec }: DeviceTaintRule,
  { driver, pool, device }: { readonly driver: string; readonly pool: string; readonly device: string },
): boolean => {
  const { deviceSelector: selector = {} } = spec;
  const matches = (selected: string | undefined, actual: string) => selected === undefined || selected === actual;
  return matches(selector.driver, driver) && matches(selector.pool, pool) && matches(selector.device, device);
};

/**
 * Deletes pods that use a device with a NoExecute taint if their ResourceClaim does not tolerate the taint, or tolerated it only for a limited
 * time that has passed (KEP-5055). Reports the progress in the status of DeviceTaintRules. The keys are ResourceClaims and DeviceTaintRules.
 */
export class DeviceTaintEvictionController implements Controller {
  readonly name = 'device-taint-eviction';
  readonly watches;
  readonly #options: DeviceTaintEvictionControllerOptions;
  readonly #status: RuleStatus;
  #rules: Informer<DeviceTaintRule> | undefined;

  constructor(options: DeviceTaintEvictionControllerOptions) {
    this.#options = options;
    this.#status = new RuleStatus(options.clock, (rule) => this.#effectsOf(rule));
    const { claims, slices, pods } = options;
    claims.addIndexer(claimsByPoolIndex, (claim) => [...new Set(resultsOf(claim).map(({ driver, pool }) => poolKey(driver, pool)))]);
    claims.addIndexer(claimsByConsumerIndex, consumerUids);
    slices.addIndexer(slicesByPoolIndex, (slice) => [localPoolKey(poolOf(slice))]);
    this.watches = [
      watch(claims, (claim) => (resultsOf(claim).length > 0 ? [objectKey(claim), ...this.#ruleKeysOf(claim)] : [])),
      watch(slices, ({ spec }, old) =>
        old !== undefined && old.spec === spec
          ? []
          : claims.byIndex(claimsByPoolIndex, poolKey(spec.driver, spec.pool.name)).map(objectKey),
      ),
      // a claim may be reserved before the pod is bound; deleted pods change the status of rules
      watch(pods, (pod, old) => {
        const { uid = '', deletionTimestamp } = pod.metadata ?? {};
        if (!pod.spec?.nodeName || !usesClaims(pod)) return [];
        const podClaims = claims.byIndex(claimsByConsumerIndex, uid);
        if (pod.spec.nodeName !== old?.spec?.nodeName) return podClaims.flatMap((claim) => [objectKey(claim), ...this.#ruleKeysOf(claim)]);
        return deletionTimestamp === old?.metadata?.deletionTimestamp ? [] : podClaims.flatMap((claim) => this.#ruleKeysOf(claim));
      }),
    ];
  }

  addDynamicWatches(add: (watch: ControllerWatch) => () => void): () => void {
    const { discovery, log, claims, rules } = this.#options;
    return watchWhenServed(discovery, deviceTaintRulesV1beta2, {
      log,
      createWatch: () => {
        this.#rules = rules();
        return watch(this.#rules, (rule, old) => {
          // ignores changes of the status
          if (old !== undefined && jsonEqual(old.spec, rule.spec)) return [];
          if (this.#rules?.get(objectKey(rule)) === undefined) this.#status.forget(rule.metadata?.uid ?? '');
          const allocated = claims.list().flatMap((claim) => (resultsOf(claim).length > 0 ? [objectKey(claim)] : []));
          return [...allocated, `${rulePrefix}${rule.metadata?.name ?? ''}`];
        });
      },
      add,
    });
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    if (key.startsWith(rulePrefix)) {
      const rule = this.#rules?.get(key.slice(rulePrefix.length) as ObjectKey);
      return rule && this.#status.reconcile(rule, client);
    }
    const { claims, clock } = this.#options;
    const claim = claims.get(key);
    if (claim === undefined) return undefined;
    let next: number | undefined;
    for (const pod of this.#podsUsing(claim)) {
      const { evictAt, rules } = this.#evictionTimeOf(claim, pod.spec?.nodeName);
      if (evictAt === undefined) continue;
      if (evictAt > clock.now()) {
        next = Math.min(next ?? evictAt, evictAt);
        continue;
      }
      this.#options.recorder.event(pod, 'Normal', 'DeviceTaintManagerEviction', 'Marking for deletion');
      // counted before the deletion, because its watch event may arrive before the response
      const countEviction = (by: 1 | -1) => {
        for (const { metadata } of rules) this.#status.recordEviction(metadata?.uid ?? '', by);
      };
      countEviction(1);
      if (!(await this.#evict(pod, client))) countEviction(-1);
    }
    return next === undefined ? undefined : { requeueAfterMs: Math.max(0, next - clock.now()) };
  }

  /** Returns the keys of the DeviceTaintRules that select a device of the claim. */
  #ruleKeysOf(claim: ResourceClaim): readonly string[] {
    const selectsDevice = (rule: DeviceTaintRule) =>
      resultsOf(claim).some(({ driver, pool, device }) => isSelected(rule, { driver, pool, device }));
    return (this.#rules?.list() ?? []).flatMap((rule) => (selectsDevice(rule) ? [`${rulePrefix}${rule.metadata?.name ?? ''}`] : []));
  }

  /** Returns the running pods for which the claim is reserved. */
  #podsUsing({ metadata, status }: ResourceClaim): readonly Pod[] {
    return (status?.reservedFor ?? []).flatMap(({ resource, name, uid }) => {
      const pod = resource === 'pods' ? this.#options.pods.get(`${metadata?.namespace}/${name}`) : undefined;
      return pod?.metadata?.uid !== uid || !pod.spec?.nodeName || isTerminating(pod) || isTerminal(pod) ? [] : [pod];
    });
  }

  /**
   * Returns when the pods of a node that use a claim must be evicted, in milliseconds since the epoch (undefined: never), and the DeviceTaintRules
   * that cause the eviction.
   */
  #evictionTimeOf(
    claim: ResourceClaim,
    nodeName: string | undefined,
  ): { readonly evictAt: number | undefined; readonly rules: readonly DeviceTaintRule[] } {
    let evictAt: number | undefined;
    const rules = new Set<DeviceTaintRule>();
    for (const result of resultsOf(claim)) {
      for (const { taint, rule } of this.#taintsOf(result, nodeName)) {
        const time = taint.effect === 'NoExecute' ? evictionTime(taint, result) : undefined;
        if (time === undefined) continue;
        evictAt = Math.min(evictAt ?? Number.POSITIVE_INFINITY, time);
        if (rule !== undefined) rules.add(rule);
      }
    }
    return { evictAt, rules: [...rules] };
  }

  *#taintsOf({ driver, pool, device }: DeviceRequestAllocationResult, nodeName: string | undefined): Generator<DeviceTaintOfRule> {
    for (const { spec } of this.#slicesOf({ driver, pool, nodeName }))
      for (const { name, taints = [] } of spec.devices ?? []) if (name === device) for (const taint of taints) yield { taint };
    for (const rule of this.#rules?.list() ?? []) if (isSelected(rule, { driver, pool, device })) yield { taint: rule.spec.taint, rule };
  }

  /** Returns the current slices of a pool that are local to the node or to none; without a node, those that are local to none. */
  #slicesOf({ driver, pool, nodeName }: Pool): readonly ResourceSlice[] {
    const { slices } = this.#options;
    const shared = slices.byIndex(slicesByPoolIndex, localPoolKey({ driver, pool }));
    const local = nodeName ? slices.byIndex(slicesByPoolIndex, localPoolKey({ driver, pool, nodeName })) : [];
    return currentSlices([...local, ...shared]);
  }

  /** Returns the number of devices in current slices that a rule selects. */
  #publishedDevices(rule: DeviceTaintRule): number {
    const pools = new Map(this.#options.slices.list().map((slice) => [localPoolKey(poolOf(slice)), poolOf(slice)]));
    const current = new Set([...pools.values()].flatMap((pool) => this.#slicesOf(pool)));
    const selected = (slice: ResourceSlice) =>
      (slice.spec.devices ?? []).filter(({ name }) => isSelected(rule, { ...poolOf(slice), device: name })).length;
    return [...current].reduce((sum, slice) => sum + selected(slice), 0);
  }

  #effectsOf(rule: DeviceTaintRule): RuleEffects {
    const { claims } = this.#options;
    const taint = { ...rule.spec.taint, effect: 'NoExecute' };
    const podsToEvict = new Set<Pod>();
    let allocated = 0;
    for (const claim of claims.list())
      for (const result of resultsOf(claim)) {
        if (!isSelected(rule, { driver: result.driver, pool: result.pool, device: result.device })) continue;
        allocated++;
        if (evictionTime(taint, result) !== undefined) for (const pod of this.#podsUsing(claim)) podsToEvict.add(pod);
      }
    return {
      pods: podsToEvict.size,
      namespaces: new Set([...podsToEvict].map(({ metadata }) => metadata?.namespace)).size,
      published: this.#publishedDevices(rule),
      allocated,
    };
  }

  /** Deletes a pod. Returns false if the pod does not exist. */
  async #evict(pod: Pod, client: Client): Promise<boolean> {
    try {
      if (!pod.status?.conditions?.some(({ type, status }) => type === 'DisruptionTarget' && status === 'True')) {
        const condition = {
          type: 'DisruptionTarget',
          ...(pod.metadata?.generation !== undefined && { observedGeneration: pod.metadata.generation }),
          status: 'True',
          reason: 'DeletionByDeviceTaintManager',
          message: 'Device Taint manager: deleting due to NoExecute taint',
          lastTransitionTime: formatTime(this.#options.clock.now()),
        };
        const conditions = [...(pod.status?.conditions ?? []).filter(({ type }) => type !== 'DisruptionTarget'), condition];
        await client.update(
          podResource,
          { ...withTypeMeta(podResource, pod), status: { ...pod.status, conditions } },
          { subresource: 'status' },
        );
      }
      await client.delete(podResource, objectName(pod), { preconditions: { uid: pod.metadata?.uid ?? '' } });
      return true;
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
      return false;
    }
  }
}

/** Returns when pods must stop using an allocated device because of a taint, in milliseconds since the epoch; undefined if never. */
function evictionTime(taint: DeviceTaint, { tolerations = [] }: DeviceRequestAllocationResult): number | undefined {
  const matching = tolerations.filter((toleration) => toleratesDeviceTaint(toleration, taint));
  if (matching.length === 0) return 0;
  const seconds = matching.flatMap(({ tolerationSeconds }) => (tolerationSeconds === undefined ? [] : [Math.max(0, tolerationSeconds)]));
  return seconds.length === 0 ? undefined : (parseTime(taint.timeAdded ?? '') ?? 0) + Math.min(...seconds) * 1000;
}

export default Controllers.plugin({
  id: 'controller-device-taint-eviction',
  declares: { loop: 'device-taint-eviction' },
  config: z.strictObject({}),
  needs: { informers: Informers, events: Events, client: Client },
  create: ({ informers, events, client }, { clock, log }) =>
    new DeviceTaintEvictionController({
      claims: informers.forResource(resourceClaims),
      slices: informers.forResource(resourceSlices),
      pods: informers.forResource(podResource),
      rules: () => informers.forResource(deviceTaintRulesV1beta2),
      discovery: new ResourceDiscovery(client),
      recorder: events.recorder('device-taint-eviction'),
      clock,
      log,
    }),
});
