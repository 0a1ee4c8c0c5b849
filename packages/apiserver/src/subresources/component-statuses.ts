import type { KubeObject } from '@oarlock/api/object';
import { componentStatuses } from '@oarlock/api/resources';
import { notFound } from '@oarlock/api/status';
import type { Health } from '@oarlock/spi/role';
import type { Call } from '../call.ts';
import { listOptions } from '../list-options.ts';
import type { Encoded, PipelineResponse } from '../response.ts';
import { View } from '../watch-cache/item.ts';
import { selection, type FieldReaders } from '../watch-cache/selection.ts';
import { made } from './answers.ts';

/** A part of the control plane, as componentstatuses names it: `scheduler`, `controller-manager`, `etcd-0`. */
export interface Component {
  readonly name: string;
  check(): Health | Promise<Health>;
}

const readers: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const deprecated = 'v1 ComponentStatus is deprecated in v1.19+';

/** Who asks for componentstatuses asks every part anew; nothing of it is stored, so that nobody can watch it. */
export async function componentStatus(components: readonly Component[], call: Call): Promise<PipelineResponse> {
  const { request } = call;
  call.warn(deprecated);
  if (request.verb === 'get') {
    const component = components.find(({ name }) => name === request.name);
    if (component === undefined) throw notFound(componentStatuses, request.name);
    return made(await statusOf(component), call, 200);
  }
  const { labels, fields } = listOptions(request.query, readers);
  const { key, matches } = selection({ namespaced: false, namespace: '', labels, fields, readers, indexField: undefined });
  const statuses = await Promise.all(components.map((component) => statusOf(component)));
  const items = statuses
    .filter((object) => (key === undefined || object.metadata?.name === key) && matches?.(object) !== false)
    .map((object): Encoded => new View(object, 0));
  return { kind: 'list', resource: componentStatuses, items, metadata: {}, warnings: call.warnings };
}

async function statusOf({ name, check }: Component): Promise<KubeObject> {
  let health: Health;
  try {
    health = await check();
  } catch (error) {
    health = { healthy: false, because: error instanceof Error ? error.message : String(error) };
  }
  const condition = health.healthy
    ? { type: 'Healthy', status: 'True', message: 'ok' }
    : { type: 'Healthy', status: 'False', message: health.because };
  return { kind: 'ComponentStatus', apiVersion: 'v1', metadata: { name }, ...{ conditions: [condition] } } as KubeObject;
}
