import { isFields, valueAt, type Fields } from '../request.ts';
import type { Exchange, PatchName, Probe } from './probe.ts';

/** A write whose body has fields that the kind does not declare, or duplicate fields. */
interface FaultyWrite {
  readonly what: string;
  /** How many fields are faulty. */
  readonly faults: number;
  /** The code of the answer to Strict and to the other levels. */
  readonly codes: readonly [strict: readonly number[], success: number];
  send(query: string): Promise<Exchange>;
}

const withUnknown = (object: Fields): Fields => ({
  ...object,
  metadata: { ...(object['metadata'] as Fields | undefined), differUnknown: 1 },
  differUnknown: 1,
});

function withDuplicate({ metadata, ...object }: Fields): string {
  const { annotations: _, ...others } = (metadata ?? {}) as Fields;
  const text = JSON.stringify({ metadata: { annotations: { a: 'last' }, ...others }, ...object });
  return text.replace('"annotations":', '"annotations":{"a":"first"},"annotations":');
}

const faultyFields: Readonly<Record<string, { readonly faults: number; json(object: Fields): string }>> = {
  unknown: { faults: 2, json: (object) => JSON.stringify(withUnknown(object)) },
  duplicate: { faults: 1, json: withDuplicate },
  'unknown and duplicate': { faults: 3, json: (object) => withDuplicate(withUnknown(object)) },
};

/**
 * Returns dry runs of a create, an update and a patch of each type but apply, which rejects fields outside of the schema at every level. The codes of
 * errors are those of upstream: 422 for patches, 400 for other writes.
 */
function faultyWrites(probe: Probe, path: string, stored: Fields): readonly FaultyWrite[] {
  const options = 'dryRun=All&fieldManager=differ';
  const headers = { 'content-type': 'application/json' };
  const added = probe.fresh().object;
  const patchCodes = [[422], 200] as const;
  const patch = (type: PatchName, what: string, faults: number, body: unknown): FaultyWrite => ({
    what: `${type} patch, ${what} fields`,
    faults,
    codes: patchCodes,
    send: (query) => probe.patch(`${path}?${options}${query}`, type, body),
  });
  const additions = ['/differUnknown', '/metadata/differUnknown'].map((at) => ({ op: 'add', path: at, value: 1 }));
  const patchTypes: readonly PatchName[] = probe.kind.isCustom ? ['merge'] : ['merge', 'strategic'];
  return [
    patch('json', 'unknown', 2, additions),
    ...Object.entries(faultyFields).flatMap(([what, { faults, json }]): readonly FaultyWrite[] => [
      {
        what: `create, ${what} fields`,
        faults,
        codes: [[400], 201],
        send: (query) => probe.send({ method: 'POST', path: `${probe.list}?${options}${query}`, headers, body: json(added) }),
      },
      {
        what: `update, ${what} fields`,
        faults,
        codes: [[400], 200],
        send: (query) => probe.send({ method: 'PUT', path: `${path}?${options}${query}`, headers, body: json(stored) }),
      },
      ...patchTypes.map((type) => patch(type, what, faults, json({}))),
    ]),
  ];
}

/** Unknown and duplicate fields are an error with Strict, warnings of the same text with Warn, and nothing with Ignore, for each kind of write. */
export async function fieldValidationAgrees(probe: Probe): Promise<void> {
  const { object, path } = probe.fresh();
  const created = await probe.create(object);
  if (!probe.expectStatus('create', created, 201) || !isFields(created.body)) return;
  for (const { what, faults, codes, send } of faultyWrites(probe, path, created.body)) {
    const [strict, warn, ignore] = [
      await send('&fieldValidation=Strict'),
      await send('&fieldValidation=Warn'),
      await send('&fieldValidation=Ignore'),
    ];
    probe.expectStatus(`${what}: Strict`, strict, ...codes[0]);
    probe.expectStatus(`${what}: Warn`, warn, codes[1]);
    probe.expectStatus(`${what}: Ignore`, ignore, codes[1]);
    probe.expectEqual(`${what}: object with Warn`, warn.request, [ignore.body, warn.body]);
    const message = String(valueAt(strict.body, 'message'));
    const contained = faultsIn(warn).filter((line) => message.includes(line));
    probe.expectEqual(`${what}: warnings in the error of Strict`, warn.request, [faults, contained.length]);
    probe.expectEqual(`${what}: warnings with Ignore`, ignore.request, [[], faultsIn(ignore)]);
  }
}

/** Returns the warnings of an answer about unknown and duplicate fields. */
const faultsIn = ({ answer }: Exchange): readonly string[] =>
  (answer.headers['warning'] ?? '')
    .split('\n')
    .map((line) => line.replace(/^299 - "(.*)"$/, '$1').replaceAll('\\"', '"'))
    .filter((line) => /^(unknown|duplicate) field /.test(line));
