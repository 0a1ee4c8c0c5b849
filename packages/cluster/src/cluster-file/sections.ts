import { Admission } from '@oarlock/spi/admission';
import { Audit } from '@oarlock/spi/audit';
import { Authn } from '@oarlock/spi/authn';
import { Authz } from '@oarlock/spi/authz';
import { Cloud } from '@oarlock/spi/cloud';
import { Controllers } from '@oarlock/spi/controller';
import { Dns } from '@oarlock/spi/dns';
import { Network } from '@oarlock/spi/network';
import { Paths } from '@oarlock/spi/paths';
import { Policy } from '@oarlock/spi/policy';
import { Proxy } from '@oarlock/spi/proxy';
import { Runtime } from '@oarlock/spi/runtime';
import { Scheduling } from '@oarlock/spi/scheduling';
import { Storage } from '@oarlock/spi/storage';
import { Volumes } from '@oarlock/spi/volume';
import type { Slot } from '@oarlock/kernel/plugin';
import type { ClusterSpec, PlacementSpec, RoleName } from './cluster-schema.ts';

/** A section of `cluster.yaml` that places plugins: the slot that they provide, and the roles whose processes load them. */
export interface Section {
  readonly key:
    | 'storage'
    | 'authn'
    | 'authz'
    | 'admission'
    | 'audit'
    | 'scheduling'
    | 'controllers'
    | 'runtimes'
    | 'network'
    | 'volumes'
    | 'policy'
    | 'proxy'
    | 'dns'
    | 'cloud'
    | 'paths';
  // biome-ignore lint/suspicious/noExplicitAny: a table of unlike slots
  readonly slot: Slot<any>;
  readonly roles: readonly RoleName[];
}

/** All sections, in the order in which plugins are created. Plugins are started in the same order unless their dependencies require another. */
export const sections: readonly Section[] = [
  { key: 'storage', slot: Storage, roles: ['apiserver'] },
  { key: 'authn', slot: Authn, roles: ['apiserver'] },
  { key: 'authz', slot: Authz, roles: ['apiserver'] },
  { key: 'admission', slot: Admission, roles: ['apiserver'] },
  { key: 'audit', slot: Audit, roles: ['apiserver'] },
  { key: 'paths', slot: Paths, roles: ['apiserver'] },
  { key: 'scheduling', slot: Scheduling, roles: ['scheduler'] },
  { key: 'cloud', slot: Cloud, roles: ['controllers'] },
  { key: 'controllers', slot: Controllers, roles: ['controllers'] },
  { key: 'network', slot: Network, roles: ['kubelet'] },
  { key: 'runtimes', slot: Runtime, roles: ['kubelet'] },
  // without a kubelet, volume drivers still create the objects of the cluster, such as CSIDrivers, with any part of the control plane
  { key: 'volumes', slot: Volumes, roles: ['apiserver', 'controllers', 'kubelet'] },
  { key: 'policy', slot: Policy, roles: ['kubelet'] },
  { key: 'proxy', slot: Proxy, roles: ['proxy'] },
  { key: 'dns', slot: Dns, roles: ['proxy'] },
];

/** Configs of default plugins. Audit events are written in batches, so that a request does not wait for the disk. */
const defaultConfigs: Readonly<Record<string, Record<string, unknown>>> = { 'audit-log': { mode: 'batch' } };

/** The plugins of a section that is absent in `cluster.yaml`. */
export const defaultPlacements: Partial<Record<Section['key'], readonly string[]>> = {
  authn: ['authn-client-certificate', 'authn-service-account', 'authn-bootstrap-token', 'authn-anonymous'],
  authz: ['authz-masters', 'authz-node', 'authz-rbac'],
  // the order of Kubernetes: plugins come after those whose changes they read, and quotas are charged last
  admission: [
    'admission-namespace-lifecycle',
    'admission-limit-ranger',
    'admission-service-account',
    'admission-node-restriction',
    'admission-taint-nodes-by-condition',
    'admission-pod-security',
    'admission-pod-topology-labels',
    'admission-priority',
    'admission-default-toleration-seconds',
    'admission-default-storage-class',
    'admission-storage-object-in-use-protection',
    'admission-persistent-volume-claim-resize',
    'admission-runtime-class',
    'admission-certificate-approval',
    'admission-certificate-signing',
    'admission-cluster-trust-bundle-attest',
    'admission-certificate-subject-restriction',
    'admission-default-ingress-class',
    'admission-pod-resize-validator',
    'admission-mutating-policy',
    'admission-validating-policy',
    'admission-webhooks',
    'admission-resource-quota',
  ],
  audit: ['audit-log'],
};

/**
 * The positions at which `oarlock dev` inserts a plugin in a section: authorizers before the rules that allow, admission plugins before the quota
 * plugin. `before: ''` is the start of the list.
 */
export const insertionPoints: Partial<Record<Section['key'], { readonly after?: string; readonly before?: string }>> = {
  authn: { before: '' },
  authz: { after: 'authz-masters', before: '' },
  admission: { before: 'admission-resource-quota' },
};

export interface NamedPlacement {
  readonly placement: PlacementSpec;
  readonly path: readonly (string | number)[];
}

/** Returns the placements of a section, each with its path in the file. */
export function placementsOf(spec: ClusterSpec, { key }: Section): readonly NamedPlacement[] {
  const value = spec[key];
  if (value === undefined)
    return (defaultPlacements[key] ?? []).map((use) => ({ placement: { use, config: defaultConfigs[use] ?? {} }, path: ['spec', key] }));
  if (!Array.isArray(value)) return [{ placement: value as PlacementSpec, path: ['spec', key] }];
  return (value as readonly PlacementSpec[]).map((placement, index) => ({ placement, path: ['spec', key, index] }));
}
