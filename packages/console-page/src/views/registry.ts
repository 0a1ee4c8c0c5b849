import type { FunctionComponent } from 'preact';
import { offeredBy, type ServerFeatures } from '../api/server-features.ts';
import { tableLink } from '../app/links.ts';
import { link } from '../app/router.ts';
import { text } from '../text/en.ts';
import { View as Overview } from './overview/overview.tsx';
import { View as ResourceTable } from './resources/resource-table.tsx';
import type { ViewProps } from './view-props.ts';

/**
 * A view: the path at which it is shown, and the module that is loaded when it is shown first. The module exports the component as `View`. The views that most
 * addresses open are part of the main script: they need no further round trips.
 */
export interface View {
  readonly id: string;
  /** A pattern of `matchPath`. */
  readonly path: string;
  /** True if the view shows what only Oarlock serves. */
  readonly onlyOarlock?: boolean;
  load(): Promise<{ readonly View: FunctionComponent<ViewProps> }>;
}

/** All views. The first whose path matches is shown. */
export const views: readonly View[] = [
  { id: 'overview', path: '/', load: async () => ({ View: Overview }) },
  { id: 'resources', path: '/resources', load: () => import('./resources/resource-list.tsx') },
  { id: 'table', path: '/r/:group/:version/:resource', load: async () => ({ View: ResourceTable }) },
  { id: 'object', path: '/o/:group/:version/:resource/:namespace/:name/:tab?', load: () => import('./object/object-page.tsx') },
  { id: 'why', path: '/why/:question?', load: () => import('./why/why.tsx') },
  { id: 'traces', path: '/traces', onlyOarlock: true, load: () => import('./traces/traces.tsx') },
  { id: 'plugins', path: '/plugins/:slot?/:name?', onlyOarlock: true, load: () => import('./plugins/plugins.tsx') },
  { id: 'topology', path: '/topology/:part?', load: () => import('./topology/topology.tsx') },
  { id: 'create', path: '/create', load: () => import('./create/create.tsx') },
];

/** A link of the navigation, with the keys that open it. */
export interface NavigationItem {
  readonly label: string;
  readonly href: string;
  readonly keys: string;
  /** True if the view shows what only Oarlock serves. */
  readonly onlyOarlock?: boolean;
}

const table = (label: string, keys: string, [group, version, resource]: readonly [string, string, string]): NavigationItem => ({
  label,
  keys,
  href: tableLink({ group, version, resource }),
});

export const navigation: readonly NavigationItem[] = [
  { label: text.overview.title, href: link([]), keys: 'g o' },
  { label: text.topology.title, href: link(['topology']), keys: 'g l' },
  { label: text.why.title, href: link(['why']), keys: 'g y' },
  { label: text.traces.title, href: link(['traces']), keys: 'g i', onlyOarlock: true },
  { label: text.plugins.title, href: link(['plugins']), keys: 'g u', onlyOarlock: true },
  { label: text.resources.title, href: link(['resources']), keys: 'g r' },
  table('Pods', 'g p', ['', 'v1', 'pods']),
  table('Deployments', 'g d', ['apps', 'v1', 'deployments']),
  table('StatefulSets', 'g t', ['apps', 'v1', 'statefulsets']),
  table('DaemonSets', 'g a', ['apps', 'v1', 'daemonsets']),
  table('Jobs', 'g j', ['batch', 'v1', 'jobs']),
  table('CronJobs', 'g c', ['batch', 'v1', 'cronjobs']),
  table('Services', 'g s', ['', 'v1', 'services']),
  table('ConfigMaps', 'g m', ['', 'v1', 'configmaps']),
  table('Secrets', 'g x', ['', 'v1', 'secrets']),
  table('PersistentVolumeClaims', 'g v', ['', 'v1', 'persistentvolumeclaims']),
  table('Nodes', 'g n', ['', 'v1', 'nodes']),
  table('Namespaces', 'g w', ['', 'v1', 'namespaces']),
  table('Events', 'g e', ['', 'v1', 'events']),
  { label: text.create.title, href: link(['create']), keys: 'c' },
];

/** Returns the links to the views that a server has content for. */
export const navigationOf = (features: ServerFeatures): readonly NavigationItem[] => offeredBy(features, navigation);
