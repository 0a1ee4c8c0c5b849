import { differInTimesAlone } from '@oarlock/api/managed-fields/field-manager';
import { decodeManagers } from '@oarlock/api/managed-fields/managers';
import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { ApiRequest } from '@oarlock/spi/loopback';
import type { Call } from './call.ts';
import { fieldManagerOf } from './managed-fields-kind.ts';
import type { Machinery } from './machinery.ts';
import { forces, isPrintable, maxManager } from './request-options.ts';
import type { ServedKind } from './served-kind.ts';
import { withMeta } from './strategy/strategy.ts';

/** Who writes: the manager that the request names, else the program, as its `User-Agent` begins. */
export function managerOf({ query, userAgent = '' }: Pick<ApiRequest, 'query' | 'userAgent'>): string {
  const { fieldManager = '' } = query;
  return fieldManager === '' ? programOf(userAgent) : fieldManager;
}

let [lastAgent, lastProgram] = ['', ''];

function programOf(userAgent: string): string {
  if (userAgent === lastAgent) return lastProgram;
  const slash = userAgent.indexOf('/');
  let [program, bytes] = ['', 0];
  for (const char of slash < 0 ? userAgent : userAgent.slice(0, slash)) {
    if (!isPrintable(char)) continue;
    bytes += Buffer.byteLength(char);
    if (bytes > maxManager) break;
    program += char;
  }
  [lastAgent, lastProgram] = [userAgent, program];
  return program;
}

/** The object with its managers after an update by this request. `live` is undefined when the object is new. */
export function tracked(machinery: Machinery, kind: ServedKind, call: Call, live: KubeObject | undefined, next: KubeObject): KubeObject {
  const { request, now } = call;
  const subresource = live === undefined ? '' : request.subresource;
  return fieldManagerOf(machinery, kind, subresource).update(live, next, managerOf(request), now);
}

/** The object that the configuration in this request makes. @throws StatusError Conflict, BadRequest */
export function applied(machinery: Machinery, kind: ServedKind, call: Call, live: KubeObject | undefined): KubeObject {
  const { request, now } = call;
  const { fieldManager = '' } = request.query;
  return fieldManagerOf(machinery, kind, request.subresource).apply(live, request.body, fieldManager, forces(request.query), now);
}

/** Admission may change managers, but not into something that they cannot be. */
export function withDecodable(admitted: KubeObject, before: KubeObject): KubeObject {
  const given = admitted.metadata?.managedFields;
  const known = before.metadata?.managedFields;
  if (given === known || decodeManagers(given) !== undefined) return admitted;
  return withMeta(admitted, { managedFields: known });
}

/** The object with the managers that the write gave it, whatever strategies left of them; with the old times when nothing else changed. */
export function settledManagers(stored: KubeObject, next: KubeObject, old: KubeObject | undefined): KubeObject {
  const managedFields = next.metadata?.managedFields;
  const settled = stored.metadata?.managedFields === managedFields ? stored : withMeta(stored, { managedFields });
  const before = old?.metadata?.managedFields;
  if (old === undefined || before === undefined || !differInTimesAlone(before, managedFields)) return settled;
  if (!jsonEqual({ ...settled, metadata: undefined }, { ...old, metadata: undefined })) return settled;
  const same = withMeta(settled, { managedFields: before, resourceVersion: old.metadata?.resourceVersion });
  return jsonEqual(same, old) ? withMeta(settled, { managedFields: before }) : settled;
}
