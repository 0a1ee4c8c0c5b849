import { objectKey, type ObjectKey } from '@oarlock/api/object';
import { deviceTaintRulesV1beta2, pods as podResource, resourceClaims, resourceSlices } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import { formatTime, parseTime } from '@oarlock/api/time';
import type { Pod, Taint } from '@oarlock/api/types/core-v1';
import type { DeviceRequestAllocationResult, DeviceTaint, ResourceClaim, ResourceSlice } from '@oarlock/api/types/resource-v1';
import type { DeviceTaintRule } from '@oarlock/api/types/resource-v1beta2';
import type { Clock } from '@oarlock/kernel/clock';
import type { Logger } from '@oarlock/kernel/logger';
import { Client, Events, Informers, type EventRecorder, type Informer } from '@oarlock/spi/client';
import { Controllers, watch, type Controller, type ReconcileContext, type ReconcileResult, type Watch } from '@oarlock/spi/controller';
import { z } from 'zod';
import { byConsumer, consumersOf } from '../claims-by-consumer.ts';
import { isTerminal, isTerminating } from '../pod-state.ts';
import { nameOf, typed } from '../pod-template.ts';
import { ServedResources } from '../served-resources.ts';
import { tolerates } from '../tolerations.ts';
import { whenServed } from '../when-served.ts';

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

/** Deletes pods that use a device with a NoExecute taint which their claim does not tolerate, or no longer does (KEP-5055). The key is the claim. */
export class DeviceTaintEvictionController implements Controller {
  readonly name = 'device-taint-eviction';
  readonly watches;
  readonly #parts: Parts;
  #rules: Informer<DeviceTaintRule> | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    const { claims, slices, pods } = parts;
    claims.addIndex(byPool, (claim) => [...new Set(resultsOf(claim).map(({ driver, pool }) => poolText(driver, pool)))]);
    claims.addIndex(byConsumer, consumersOf);
    slices.addIndex(ofPool, ({ spec }) => [poolText(spec.driver, spec.pool.name)]);
    this.watches = [
      watch(claims, (claim) => (resultsOf(claim).length > 0 ? [objectKey(claim)] : [])),
      watch(slices, ({ spec }, old) =>
        old !== undefined && old.spec === spec ? [] : claims.byIndex(byPool, poolText(spec.driver, spec.pool.name)).map(objectKey),
      ),
      // a claim may be reserved for a pod before it is known where it runs
      watch(pods, (pod, old) =>
        pod.spec?.nodeName && pod.spec.nodeName !== old?.spec?.nodeName && usesClaims(pod)
          ? claims.byIndex(byConsumer, pod.metadata?.uid ?? '').map(objectKey)
          : [],
      ),
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
        return watch(this.#rules, () => claims.list().flatMap((claim) => (resultsOf(claim).length > 0 ? [objectKey(claim)] : [])));
      },
      add,
    );
  }

  async reconcile(key: ObjectKey, { client }: ReconcileContext): Promise<ReconcileResult | void> {
    const { claims, pods, recorder, clock } = this.#parts;
    const claim = claims.get(key);
    if (claim === undefined) return undefined;
    const until = this.#endOf(claim);
    if (until === undefined) return undefined;
    if (until > clock.now()) return { requeueAfterMs: until - clock.now() };
    for (const consumer of claim.status?.reservedFor ?? []) {
      const pod = consumer.resource === 'pods' ? pods.get(`${claim.metadata?.namespace}/${consumer.name}`) : undefined;
      if (pod?.metadata?.uid !== consumer.uid || !pod.spec?.nodeName || isTerminating(pod) || isTerminal(pod)) continue;
      recorder.event(pod, 'Normal', 'DeviceTaintManagerEviction', 'Marking for deletion');
      await this.#evict(pod, client);
    }
    return undefined;
  }

  /** When the first of its devices is no longer to be used, in milliseconds since the epoch; undefined: never. */
  #endOf(claim: ResourceClaim): number | undefined {
    let end: number | undefined;
    for (const result of resultsOf(claim)) {
      for (const taint of this.#taintsOf(result)) {
        if (taint.effect !== 'NoExecute') continue;
        const used = (result.tolerations ?? []).filter((toleration) => tolerates(toleration, taint as Taint));
        const added = parseTime(taint.timeAdded ?? '') ?? 0;
        const seconds = used.flatMap(({ tolerationSeconds }) => (tolerationSeconds === undefined ? [] : [Math.max(0, tolerationSeconds)]));
        if (used.length > 0 && seconds.length === 0) continue;
        end = Math.min(end ?? Number.POSITIVE_INFINITY, used.length === 0 ? 0 : added + Math.min(...seconds) * 1000);
      }
    }
    return end;
  }

  *#taintsOf({ driver, pool, device }: DeviceRequestAllocationResult): Generator<DeviceTaint> {
    const slices = this.#parts.slices.byIndex(ofPool, poolText(driver, pool));
    const newest = Math.max(...slices.map(({ spec }) => spec.pool.generation));
    // what an older generation says is on its way out
    for (const { spec } of slices)
      if (spec.pool.generation === newest) for (const each of spec.devices ?? []) if (each.name === device) yield* each.taints ?? [];
    for (const { spec } of this.#rules?.list() ?? []) {
      const { deviceSelector: wanted = {}, taint } = spec;
      const fits = (selected: string | undefined, is: string) => selected === undefined || selected === is;
      if (fits(wanted.driver, driver) && fits(wanted.pool, pool) && fits(wanted.device, device)) yield taint;
    }
  }

  async #evict(pod: Pod, client: Client): Promise<void> {
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
    } catch (error) {
      if (!isStatus(error, 'NotFound')) throw error;
    }
  }
}

export default Controllers.plugin({
  id: 'controller-device-taint-eviction',
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
