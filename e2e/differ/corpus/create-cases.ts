import type { Fields, RequestCase } from '../request.ts';
import { fieldsOf, pathText, withField } from './fields.ts';
import { listPath, objectOf, type CorpusKind } from './kinds.ts';
import { fieldValues, plausible } from './values.ts';

const dryRun = 'dryRun=All&fieldManager=differ&fieldValidation=Strict';

/** Kinds whose fields include those of metadata, and of pod templates, for all others. */
const withMetadata = new Set(['configmaps', 'nodes']);

/** Creates without a write: the minimal object, the one with all fields, and each field with valid and wrong values. */
export function createCases(kind: CorpusKind): readonly RequestCase[] {
  return [...wholeObjects(kind), ...fieldCases(kind)];
}

function create(kind: CorpusKind, name: string, object: Fields): RequestCase {
  return { id: `create/${kind.id}/${name}`, steps: [{ method: 'POST', path: `${listPath(kind)}?${dryRun}`, body: object }] };
}

function wholeObjects(kind: CorpusKind): readonly RequestCase[] {
  const minimal = objectOf(kind, '%{run}');
  const { name: _, ...unnamed } = minimal.metadata;
  return [
    create(kind, 'minimal', minimal),
    create(kind, 'maximal', maximal(kind, minimal)),
    create(kind, 'without-spec', { apiVersion: kind.apiVersion, kind: kind.kind.kind, metadata: minimal.metadata }),
    create(kind, 'empty', {}),
    create(kind, 'without-name', { ...minimal, metadata: unnamed }),
    create(kind, 'generate-name', { ...minimal, metadata: { ...unnamed, generateName: '%{run}-generated-' } }),
    create(kind, 'wrong-name', { ...minimal, metadata: { name: 'Not_A Name!' } }),
    create(kind, 'wrong-namespace', { ...minimal, metadata: { ...minimal.metadata, namespace: 'differ-other' } }),
    create(kind, 'wrong-kind', { ...minimal, kind: 'Differ' }),
    create(kind, 'wrong-version', { ...minimal, apiVersion: 'differ.example.com/v1' }),
    create(kind, 'with-resource-version', { ...minimal, metadata: { ...minimal.metadata, resourceVersion: '1' } }),
    create(kind, 'with-uid', { ...minimal, metadata: { ...minimal.metadata, uid: 'differ' } }),
    create(kind, 'unknown-field', { ...minimal, differUnknown: 1 }),
    create(kind, 'status', { ...minimal, status: kind.status ?? {} }),
  ];
}

/** Returns an object with a plausible value for each of its top-level and second-level fields. */
function maximal(kind: CorpusKind, minimal: Fields): Fields {
  const shallow = fieldsOf(kind.schema, { podTemplates: false, metadata: false }).filter(({ steps }) => steps.length <= 2);
  const isSet = (steps: readonly string[]) => {
    let current: unknown = minimal;
    for (const step of steps) current = (current as Fields | undefined)?.[step];
    return current !== undefined;
  };
  return shallow
    .filter(({ steps }) => !isSet(steps))
    .reduce((object, field) => withField(kind.schema, object, field, plausible(field.schema)), minimal);
}

function fieldCases(kind: CorpusKind): readonly RequestCase[] {
  const fields = fieldsOf(kind.schema, { podTemplates: kind.id === 'pods', metadata: withMetadata.has(kind.id) });
  const minimal = objectOf(kind, '%{run}');
  return fields.flatMap((field) =>
    fieldValues(field.schema).map(({ name, value }) =>
      create(kind, `${pathText(field)}/${name}`, withField(kind.schema, minimal, field, value)),
    ),
  );
}
