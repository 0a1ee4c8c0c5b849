import { shuffled } from '../corpus/corpus.ts';
import { fieldsOf, pathText, withField, type FieldPath } from '../corpus/fields.ts';
import type { CorpusKind } from '../corpus/kinds.ts';
import { fieldValues } from '../corpus/values.ts';
import { valueAt } from '../request.ts';
import type { Exchange, Probe } from './probe.ts';
import { yamlOf } from './yaml.ts';

/** One field of a kind with one value. */
export interface FieldCase {
  readonly kind: CorpusKind;
  readonly field: FieldPath;
  readonly name: string;
  readonly value: unknown;
}

/** Returns the fields of all kinds with all values, in an order that follows from the seed. */
export function fieldCasesOf(kinds: readonly CorpusKind[], seed: number): readonly FieldCase[] {
  const all = kinds.flatMap((kind) =>
    fieldsOf(kind.schema, { podTemplates: kind.id === 'pods', metadata: kind.id === 'configmaps' })
      // a default class changes the objects of other checks
      .filter(({ steps }) => steps.at(-1) !== 'globalDefault')
      .flatMap((field) => fieldValues(field.schema).map((each) => ({ kind, field, ...each }))),
  );
  return shuffled(all, seed);
}

/** A value is accepted or rejected with the same causes by a dry run, a real run, a create from YAML and an apply; a read returns what was created. */
export async function fieldAgrees(probe: Probe, { kind, field, name, value }: FieldCase): Promise<void> {
  const what = `${pathText(field)} ${name}`;
  // as upstream, a create with a version is rejected, and a dry run of it is accepted
  if (pathText(field) === 'metadata.resourceVersion') return;
  const { object, path } = probe.fresh();
  const body = withField(kind.schema, object, field, value);
  const dry = await probe.create(body, '?dryRun=All&fieldManager=differ');
  const yaml = await probe.send({
    method: 'POST',
    path: `${probe.list}?dryRun=All&fieldManager=differ`,
    headers: { 'content-type': 'application/yaml' },
    body: yamlOf(body),
  });
  // messages of decoding name the format
  if (dry.answer.status === 400) probe.expectStatus(`${what}: create from YAML`, yaml, 400);
  else probe.expectSame(`${what}: create from YAML`, dry, yaml);
  const isNamed = valueAt(body, 'metadata.name') === object.metadata['name'];
  if (isNamed) await applyAgrees(probe, { what, dry, path, body });
  const real = await probe.create(body, '?fieldManager=differ');
  probe.expectSame(`${what}: real run`, dry, real, { metadata: ['resourceVersion'] });
  if (real.answer.status !== 201) return;
  const stored = `${probe.list}/${String(valueAt(real.body, 'metadata.name'))}`;
  const read = await probe.get(stored);
  probe.expectEqual(`${what}: get`, read.request, [real.body, read.body]);
  const again = await probe.send({ method: 'PUT', path: `${stored}?fieldManager=differ`, body: read.body });
  probe.expectEqual(`${what}: update with the same object`, again.request, [read.body, again.body]);
  if (stored !== path) await probe.send({ method: 'DELETE', path: `${stored}?gracePeriodSeconds=0` });
}

interface Applied {
  readonly what: string;
  readonly dry: Exchange;
  readonly path: string;
  readonly body: unknown;
}

async function applyAgrees(probe: Probe, { what, dry, path, body }: Applied): Promise<void> {
  const applied = await probe.patch(`${path}?dryRun=All&fieldManager=differ`, 'apply', body);
  // an apply rejects duplicate keys and types of lists with errors of its own, and unknown fields always
  if (applied.answer.status >= 400 && valueAt(applied.body, 'reason') !== 'Invalid') return;
  if (dry.answer.status === 400) return;
  probe.expectSame(`${what}: apply`, dry, applied, { metadata: ['managedFields'] });
}
