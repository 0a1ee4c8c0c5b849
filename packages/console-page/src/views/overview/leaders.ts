import type { KubeObject } from '../../api/client.ts';

export interface Lease extends KubeObject {
  readonly spec?: { readonly holderIdentity?: string };
}

const electedComponents = ['kube-controller-manager', 'kube-scheduler', 'cloud-controller-manager'];

/** Returns the leaders of the components that elect one. */
export const leadersOf = (leases: readonly Lease[]): readonly { readonly component: string; readonly holder: string }[] =>
  leases
    .map(({ metadata, spec }) => ({ component: metadata.name, holder: spec?.holderIdentity ?? '' }))
    .filter(({ component, holder }) => electedComponents.includes(component) && holder !== '')
    .toSorted((a, b) => (a.component < b.component ? -1 : 1));
