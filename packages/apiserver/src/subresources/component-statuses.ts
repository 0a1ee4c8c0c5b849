import type { KubeObject } from '@oarlock/api/object';
import { componentStatuses } from '@oarlock/api/resources';
import { notFound } from '@oarlock/api/status';
import type { Health } from '@oarlock/spi/role';
import type { Call } from '../call.ts';
import { listOptions, watchOptions } from '../list-options.ts';
import type { Machinery } from '../machinery.ts';
import type { Encoded, PipelineResponse, WatchFrame } from '../response.ts';
import { Frame, View } from '../watch-cache/item.ts';
import { selection, type FieldReaders } from '../watch-cache/selection.ts';
import { made } from './answers.ts';

/** A part of the control plane, as componentstatuses names it: `scheduler`, `controller-manager`, `etcd-0`. */
export interface Component {
  readonly name: string;
  check(): Health | Promise<Health>;
}

const readers: FieldReaders = { 'metadata.name': ({ metadata }) => metadata?.name ?? '' };
const deprecated = 'v1 ComponentStatus is deprecated in v1.19+';
const longestWatchMs = 30 * 60_000;

/** Who asks for componentstatuses asks every part anew; nothing of it is stored. */
export async function componentStatus(machinery: Machinery, components: readonly Component[], call: Call): Promise<PipelineResponse> {
  const { request } = call;
  call.warn(deprecated);
  if (request.verb === 'get') {
    const component = components.find(({ name }) => name === request.name);
    if (component === undefined) throw notFound(componentStatuses, request.name);
    return made(await statusOf(component), call, 200);
  }
  const watching = request.verb === 'watch' ? watchOptions(request.query, readers) : undefined;
  const { labels, fields } = watching ?? listOptions(request.query, readers);
  const { key, matches } = selection({ namespaced: false, namespace: '', labels, fields, readers, indexField: undefined });
  const statuses = await Promise.all(components.map((component) => statusOf(component)));
  const items = statuses
    .filter((object) => (key === undefined || object.metadata?.name === key) && matches?.(object) !== false)
    .map((object): Encoded => new View(object, 0));
  if (watching === undefined) return { kind: 'list', resource: componentStatuses, items, metadata: {}, warnings: call.warnings };
  const ms = Math.min((watching.timeoutSeconds ?? Number.POSITIVE_INFINITY) * 1000, longestWatchMs);
  return { kind: 'watch', resource: componentStatuses, frames: seenOnce(items, ms, machinery, request.signal) };
}

/** Nothing tells when a part's state changes: watchers see what is there when they come. */
async function* seenOnce(
  items: readonly Encoded[],
  ms: number,
  { clock }: Machinery,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly WatchFrame[]> {
  if (items.length > 0) yield items.map((item) => new Frame('ADDED', item, undefined));
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
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
