import { controllerRef } from '@oarlock/api/object';
import type { Service } from '@oarlock/api/types/core-v1';
import type { Endpoint, EndpointPort, EndpointSlice } from '@oarlock/api/types/discovery-v1';
import type { IPFamily } from './pod-endpoint.ts';
import { sameEndpoints, sameLabels, samePorts, sliceLabels } from './slice-comparison.ts';

/** Endpoints with the same ports and address family, which share EndpointSlices. */
export interface EndpointGroup {
  readonly family: IPFamily;
  readonly ports: readonly EndpointPort[];
  /** Endpoints by the uid of their pod. */
  readonly endpoints: ReadonlyMap<string, Endpoint>;
}

/** The writes that bring the EndpointSlices of a Service to their desired state. */
export interface SlicePlan {
  readonly create: readonly EndpointSlice[];
  readonly update: readonly EndpointSlice[];
  readonly remove: readonly EndpointSlice[];
}

/** The existing EndpointSlices of a Service, and the maximum number of endpoints in a new one. */
export interface SlicePlanOptions {
  readonly existing: readonly EndpointSlice[];
  readonly maxEndpoints: number;
}

interface MutablePlan {
  readonly create: EndpointSlice[];
  readonly update: EndpointSlice[];
  readonly remove: EndpointSlice[];
}

/**
 * Plans the writes for a Service, as upstream's endpointslice reconciler: a family without endpoints gets one slice without ports, and slices
 * that would be deleted take over the content of slices that would be created, so that names stay.
 */
export function planSlices(
  service: Service,
  { families, groups }: { readonly families: readonly IPFamily[]; readonly groups: readonly EndpointGroup[] },
  { existing, maxEndpoints }: SlicePlanOptions,
): SlicePlan {
  const plan: MutablePlan = {
    create: [],
    update: [],
    remove: existing.filter(({ addressType }) => !families.some((each) => each === addressType)),
  };
  for (const family of families) {
    const ofFamily = existing.filter(({ addressType }) => addressType === family);
    addPlan(
      plan,
      planFamily(service, { family, groups: groups.filter((group) => group.family === family) }, { existing: ofFamily, maxEndpoints }),
    );
  }
  return reuseRemovedSlices(service, plan);
}

function addPlan(plan: MutablePlan, more: SlicePlan): void {
  plan.create.push(...more.create);
  plan.update.push(...more.update);
  plan.remove.push(...more.remove);
}

function planFamily(
  service: Service,
  { family, groups }: { readonly family: IPFamily; readonly groups: readonly EndpointGroup[] },
  { existing, maxEndpoints }: SlicePlanOptions,
): SlicePlan {
  const plan: MutablePlan = { create: [], update: [], remove: [] };
  const unused = new Set(existing);
  // slices of an earlier Service of the same name are not updated, but removed
  const owned = existing.filter((slice) => isOwnedBy(slice, service));
  for (const group of groups) {
    const ofGroup = owned.filter(({ ports }) => samePorts(ports ?? [], group.ports));
    for (const slice of ofGroup) unused.delete(slice);
    addPlan(plan, planPortMapping(service, group, { existing: ofGroup, maxEndpoints }));
  }
  plan.remove.push(...unused);
  if (plan.remove.length < existing.length || plan.create.length > 0) return plan;
  // a Service without endpoints gets one slice without endpoints, which shows that it is managed
  const placeholder = newSlice(service, { family, ports: [], endpoints: [] });
  const [only, ...others] = plan.remove;
  const isPlaceholder =
    only !== undefined &&
    others.length === 0 &&
    (only.endpoints ?? []).length === 0 &&
    (only.ports ?? []).length === 0 &&
    sameLabels(only.metadata?.labels ?? {}, sliceLabels(service));
  return isPlaceholder ? { ...plan, remove: [] } : { ...plan, create: [placeholder] };
}

interface PlannedSlice {
  readonly slice: EndpointSlice;
  readonly endpoints: Endpoint[];
}

/**
 * Distributes the endpoints of a group. New endpoints fill the slices that change anyway, fullest first; the rest goes into the one unchanged
 * slice that becomes fullest by it, or else into new slices.
 */
function planPortMapping(
  service: Service,
  { family, ports, endpoints }: EndpointGroup,
  { existing, maxEndpoints }: SlicePlanOptions,
): SlicePlan {
  const labels = sliceLabels(service);
  const unplaced = new Map(endpoints);
  const fill = (target: Endpoint[]) => {
    for (const [uid, endpoint] of unplaced) {
      if (target.length >= maxEndpoints) break;
      target.push(endpoint);
      unplaced.delete(uid);
    }
  };
  const changed: PlannedSlice[] = [];
  const unchanged: PlannedSlice[] = [];
  const remove: EndpointSlice[] = [];
  for (const slice of existing) {
    const before = slice.endpoints ?? [];
    const kept = before.flatMap(({ targetRef }) => {
      const uid = targetRef?.uid ?? '';
      const desired = unplaced.get(uid);
      unplaced.delete(uid);
      return desired === undefined ? [] : [desired];
    });
    if (kept.length === 0 && before.length > 0) remove.push(slice);
    else if (!sameEndpoints(before, kept) || !sameLabels(slice.metadata?.labels ?? {}, labels)) changed.push({ slice, endpoints: kept });
    else unchanged.push({ slice, endpoints: [...kept] });
  }
  for (const { endpoints: kept } of changed.toSorted((a, b) => b.endpoints.length - a.endpoints.length)) fill(kept);
  const create: EndpointSlice[] = [];
  while (unplaced.size > 0) {
    const existingTarget = unplaced.size < maxEndpoints ? fullestWithCapacity(unchanged, maxEndpoints - unplaced.size) : undefined;
    const target = existingTarget?.endpoints ?? [];
    fill(target);
    if (existingTarget !== undefined) changed.push(existingTarget);
    else create.push(newSlice(service, { family, ports, endpoints: target }));
  }
  return { create, update: changed.map(({ slice, endpoints: next }) => updatedSlice(slice, { labels, endpoints: next })), remove };
}

/** Returns the planned slice with the most endpoints of those with at most `limit`. */
const fullestWithCapacity = (slices: readonly PlannedSlice[], limit: number): PlannedSlice | undefined =>
  slices.filter(({ endpoints }) => endpoints.length <= limit).toSorted((a, b) => b.endpoints.length - a.endpoints.length)[0];

const updatedSlice = (
  slice: EndpointSlice,
  { labels, endpoints }: { readonly labels: Readonly<Record<string, string>>; readonly endpoints: readonly Endpoint[] },
): EndpointSlice => ({
  ...slice,
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { ...slice.metadata, labels },
  endpoints,
});

const newSlice = (
  service: Service,
  {
    family,
    ports,
    endpoints,
  }: { readonly family: IPFamily; readonly ports: readonly EndpointPort[]; readonly endpoints: readonly Endpoint[] },
): EndpointSlice => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  addressType: family,
  ports,
  endpoints,
  metadata: {
    generateName: `${service.metadata?.name}-`,
    ...(service.metadata?.namespace !== undefined && { namespace: service.metadata.namespace }),
    labels: sliceLabels(service),
    ownerReferences: [controllerRef({ ...service, apiVersion: 'v1', kind: 'Service' })],
  },
});

/** Replaces pairs of a deletion and a creation by updates. Slices of an earlier Service of the same name are left to the garbage collector. */
function reuseRemovedSlices(service: Service, { create, update, remove }: SlicePlan): SlicePlan {
  const pending = [...create];
  const updates = [...update];
  const removed: EndpointSlice[] = [];
  for (const slice of remove) {
    const at = pending.findLastIndex(({ addressType }) => addressType === slice.addressType);
    const content = at < 0 || !isOwnedBy(slice, service) ? undefined : pending.splice(at, 1)[0];
    if (content === undefined) removed.push(slice);
    else
      updates.push({
        ...updatedSlice(slice, { labels: sliceLabels(service), endpoints: content.endpoints ?? [] }),
        ports: content.ports ?? [],
      });
  }
  return { create: pending, update: updates, remove: removed };
}

const isOwnedBy = ({ metadata }: EndpointSlice, service: Service): boolean =>
  (metadata?.ownerReferences ?? []).some(
    ({ apiVersion, kind, uid }) => apiVersion === 'v1' && kind === 'Service' && uid === service.metadata?.uid,
  );
