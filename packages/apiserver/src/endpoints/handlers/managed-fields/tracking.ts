import { differInTimesAlone } from '@oarlock/api/managed-fields/field-manager';
import { decodeManagers } from '@oarlock/api/managed-fields/managers';
import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { ApiRequest } from '@oarlock/spi/loopback';
import { fieldManagerOf } from './managed-kind.ts';
import type { RequestScope } from '../../../registry/request-scope.ts';
import { isForced, isPrintable, maxFieldManagerBytes } from '../../request/request-options.ts';
import { withMetadata } from '../../../registry/strategy.ts';

/** Returns the name of the field manager: the `fieldManager` of the query, otherwise the program name at the start of the `User-Agent` header. */
export function fieldManagerName({ query, userAgent = '' }: Pick<ApiRequest, 'query' | 'userAgent'>): string {
  const { fieldManager = '' } = query;
  return fieldManager === '' ? managerFromUserAgent(userAgent) : fieldManager;
}

let [lastAgent, lastProgram] = ['', ''];

function managerFromUserAgent(userAgent: string): string {
  if (userAgent === lastAgent) return lastProgram;
  const slash = userAgent.indexOf('/');
  let [program, bytes] = ['', 0];
  for (const char of slash < 0 ? userAgent : userAgent.slice(0, slash)) {
    if (!isPrintable(char)) continue;
    bytes += Buffer.byteLength(char);
    if (bytes > maxFieldManagerBytes) break;
    program += char;
  }
  [lastAgent, lastProgram] = [userAgent, program];
  return program;
}

/** Returns the object with updated managedFields after an update (FieldManager.Update upstream). `live` is undefined for a new object. */
export function trackUpdate({ registry, kind, context }: RequestScope, live: KubeObject | undefined, next: KubeObject): KubeObject {
  const { request, now } = context;
  const subresource = live === undefined ? '' : request.subresource;
  return fieldManagerOf(registry, kind, subresource).update(live, next, fieldManagerName(request), now);
}

/** Does what `trackUpdate` does, in two turns of the event loop for a large object. */
export async function trackLargeUpdate(scope: RequestScope, live: KubeObject | undefined, next: KubeObject): Promise<KubeObject> {
  const { registry, kind, context } = scope;
  if (!context.isLarge) return trackUpdate(scope, live, next);
  const { request, now } = context;
  const manager = fieldManagerOf(registry, kind, live === undefined ? '' : request.subresource);
  const compared = manager.beginUpdate({ live, next, manager: fieldManagerName(request), now });
  await context.yieldEventLoop();
  return typeof compared === 'function' ? compared() : compared;
}

/**
 * Merges the apply configuration of a request into the live object (FieldManager.Apply upstream): in several turns of the event loop for a large object.
 * @throws StatusError Conflict if another manager owns a changed field; BadRequest if the configuration is invalid
 */
export function applyConfiguration(
  { registry, kind, context }: RequestScope,
  live: KubeObject | undefined,
): KubeObject | Promise<KubeObject> {
  const { request, now } = context;
  const { fieldManager: manager = '' } = request.query;
  const fields = fieldManagerOf(registry, kind, request.subresource);
  const force = isForced(request.query);
  if (!context.isLarge) return fields.apply(live, request.body, manager, force, now);
  return context.inTurns(fields.applySteps({ live, config: request.body, manager, force, now }));
}

/** Returns the admitted object. If admission changed managedFields to entries that cannot be decoded, restores the ones before admission. */
export function restoreUndecodableManagers(admitted: KubeObject, before: KubeObject): KubeObject {
  const entries = admitted.metadata?.managedFields;
  const known = before.metadata?.managedFields;
  if (entries === known || decodeManagers(entries) !== undefined) return admitted;
  return withMetadata(admitted, { managedFields: known });
}

/** Returns the object with managedFields that strategies may have removed. Keeps the timestamps of the old entries if nothing else has changed. */
export function restoreManagedFields(stored: KubeObject, next: KubeObject, old: KubeObject | undefined): KubeObject {
  const managedFields = next.metadata?.managedFields;
  const restored = stored.metadata?.managedFields === managedFields ? stored : withMetadata(stored, { managedFields });
  const before = old?.metadata?.managedFields;
  if (old === undefined || before === undefined || !differInTimesAlone(before, managedFields)) return restored;
  if (!jsonEqual({ ...restored, metadata: undefined }, { ...old, metadata: undefined })) return restored;
  const same = withMetadata(restored, { managedFields: before, resourceVersion: old.metadata?.resourceVersion });
  return jsonEqual(same, old) ? withMetadata(restored, { managedFields: before }) : restored;
}
