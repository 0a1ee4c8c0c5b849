import type { Identity } from '@oarlock/spi/authn';
import { authorizeChain, type Authorizer } from '@oarlock/spi/authz';
import { valuesBeforeAttribute, type RecordedSpan } from '@oarlock/spi/spans';

export interface Reader {
  readonly identity: Identity;
  readonly authz: readonly Authorizer[];
}

/**
 * Returns spans for a user. The values before changes of admission plugins remain only if the user may read the object that the request wrote: permission
 * to read traces does not imply it. Other processes record no values, and no write to which a value could belong.
 */
export async function readableSpans(spans: readonly RecordedSpan[], reader: Reader): Promise<readonly RecordedSpan[]> {
  if (!spans.some(({ attributes }) => valuesBeforeAttribute in attributes)) return spans;
  const objects = new Map(spans.filter(isLocal).map(({ spanId, attributes }) => [spanId, attributes['oarlock.object']] as const));
  const decisions = new Map<string, Promise<boolean>>();
  const isReadable = (object: unknown): Promise<boolean> => {
    if (typeof object !== 'string') return Promise.resolve(false);
    const decision = decisions.get(object) ?? mayRead(object, reader);
    decisions.set(object, decision);
    return decision;
  };
  return Promise.all(
    spans.map(async (span) => {
      if (!(valuesBeforeAttribute in span.attributes)) return span;
      if (isLocal(span) && (await isReadable(objects.get(span.parentId ?? '')))) return span;
      return withoutValues(span);
    }),
  );
}

/** Returns a span without values of objects, for readers whose permissions are not known. */
export function withoutValues(span: RecordedSpan): RecordedSpan {
  if (!(valuesBeforeAttribute in span.attributes)) return span;
  const { [valuesBeforeAttribute]: _, ...attributes } = span.attributes;
  return { ...span, attributes };
}

/** Returns true for a span of this process. */
const isLocal = ({ attributes }: RecordedSpan): boolean => attributes['oarlock.sender'] === undefined;

/** @param object `<resource.group>/<namespace>/<name>` */
async function mayRead(object: string, { identity, authz }: Reader): Promise<boolean> {
  const [type = '', ...names] = object.split('/');
  const [, resource = type, group = ''] = /^([^.]*)\.(.*)$/.exec(type) ?? [];
  const name = names.at(-1);
  if (name === undefined) return false;
  const { decision } = await authorizeChain(authz, {
    kind: 'resource',
    identity,
    verb: 'get',
    group,
    version: '*',
    resource,
    subresource: '',
    namespace: names.length > 1 ? (names[0] ?? '') : '',
    name,
  });
  return decision === 'allow';
}
