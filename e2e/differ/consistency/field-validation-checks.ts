import { isFields, valueAt, type Fields } from '../request.ts';
import { faultsIn, withDuplicate, withUnknown } from './faulty-fields.ts';
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

/**
 * Returns dry runs of a create, an update and a patch of each type but apply, which rejects fields outside of the schema at every level. The codes of
 * errors are those of upstream: 422 for patches, 400 for other writes.
 */
function faultyWrites(probe: Probe, path: string, stored: Fields): readonly FaultyWrite[] {
  const options = 'dryRun=All&fieldManager=differ';
  const headers = { 'content-type': 'application/json' };
  const added = probe.fresh().object;
  const patchCodes = [[422], 200] as const;
  const faulty = (object: Fields): string => withDuplicate(withUnknown(object));
  const patch = (type: PatchName, body: unknown, faults = 3): FaultyWrite => ({
    what: `${type} patch`,
    faults,
    codes: patchCodes,
    send: (query) => probe.patch(`${path}?${options}${query}`, type, body),
  });
  const additions = ['/differUnknown', '/metadata/differUnknown'].map((at) => ({ op: 'add', path: at, value: 1 }));
  return [
    {
      what: 'create',
      faults: 3,
      codes: [[400], 201],
      send: (query) => probe.send({ method: 'POST', path: `${probe.list}?${options}${query}`, headers, body: faulty(added) }),
    },
    {
      what: 'update',
      faults: 3,
      codes: [[400], 200],
      send: (query) => probe.send({ method: 'PUT', path: `${path}?${options}${query}`, headers, body: faulty(stored) }),
    },
    patch('json', additions, 2),
    patch('merge', faulty({})),
    ...(probe.kind.isCustom ? [] : [patch('strategic', faulty({}))]),
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
