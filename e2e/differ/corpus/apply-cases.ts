import type { ApiRequest, Fields, RequestCase } from '../request.ts';
import { listPath, objectOf, type CorpusKind } from './kinds.ts';

const levels = ['Strict', 'Warn', 'Ignore'];

/** Dry runs of server-side apply that create an object: its options, and undeclared and duplicate fields with each level of fieldValidation. */
export function applyCases(kind: CorpusKind): readonly RequestCase[] {
  const object = objectOf(kind, '%{run}-apply');
  const path = `${listPath(kind)}/${String(object.metadata['name'])}`;
  const apply = (query: string, body: unknown): ApiRequest => ({
    method: 'PATCH',
    path: `${path}?dryRun=All${query}`,
    headers: { 'content-type': 'application/apply-patch+yaml' },
    body,
  });
  const labeled = (labels: Fields): Fields => ({ ...object, metadata: { ...object.metadata, labels } });
  const duplicate = JSON.stringify(labeled({ a: 'last' })).replace('"a":"last"', '"a":"first",\n"a":"last"');
  const asOne = '&fieldManager=one';
  return [
    {
      id: `apply/${kind.id}/options`,
      steps: [
        apply(asOne, object),
        apply('', object),
        apply(`${asOne}&force=true`, labeled({ a: 'b' })),
        apply(`${asOne}&force=maybe`, object),
        apply(`&fieldManager=${'m'.repeat(129)}`, object),
        apply(asOne, { ...object, kind: 'Differ' }),
        apply(asOne, labeled({ a: 5 })),
        ...levels.flatMap((level) => [
          apply(`${asOne}&fieldValidation=${level}`, { ...object, differUnknown: 1 }),
          apply(`${asOne}&fieldValidation=${level}`, duplicate),
        ]),
      ],
    },
  ];
}
