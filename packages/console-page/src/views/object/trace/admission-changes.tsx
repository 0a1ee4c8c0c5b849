import type { TreeNode } from '@oarlock/tracing/trace-tree';
import { useState } from 'preact/hooks';
import { errorText, isApiError, type KubeObject, type ObjectList } from '../../../api/client.ts';
import { pathOf, type ApiResource } from '../../../api/resources.ts';
import { useApp } from '../../../app/context.ts';
import { useLoaded } from '../../../app/hooks.ts';
import { text } from '../../../text/en.ts';
import { changedFields, diffLines, valueAt, type ChangedField } from './changed-fields.ts';

type Span = TreeNode['span'];

const words = text.trace.admission;

/**
 * What an admission plugin changed. The values after the change are read when the user opens the list, with the permissions of the user; the span has those
 * before it.
 */
export function AdmissionChanges({ span, write }: { readonly span: Span; readonly write: Span | undefined }) {
  const [isOpen, setIsOpen] = useState(false);
  const fields = changedFields(span);
  if (fields.length === 0) return null;
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>{words.changes(fields.length)}</summary>
      {isOpen && <Diff fields={fields} write={write} />}
    </details>
  );
}

function Diff({ fields, write }: { readonly fields: readonly ChangedField[]; readonly write: Span | undefined }) {
  const { client, resources } = useApp();
  const { value, error } = useLoaded(write?.spanId ?? '', async (signal): Promise<KubeObject | undefined> => {
    const written = write && writtenObject(write, resources);
    if (written === undefined) return undefined;
    const { resource, namespace, name, resourceVersion } = written;
    const { items } = await client.json<ObjectList>(pathOf(resource, namespace), {
      query: { fieldSelector: `metadata.name=${name}`, resourceVersion, resourceVersionMatch: 'Exact' },
      signal,
    });
    return items[0];
  });
  return (
    <>
      <pre class="diff" role="region" aria-label={words.changes(fields.length)} tabIndex={0}>
        {fields
          .flatMap((field) => diffLines(field, valueAt(value, field.path)))
          .map(({ sign, text: content }) => (
            <div key={`${sign} ${content}`} class={sign === '-' ? 'diff-removed' : 'diff-added'}>
              {`${sign} ${content}`}
            </div>
          ))}
      </pre>
      <p class="quiet-text">
        {error === undefined ? words.help : isApiError(error, 410) ? words.compacted : words.unreadable(errorText(error))}
      </p>
    </>
  );
}

interface WrittenObject {
  readonly resource: ApiResource;
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** Returns the object of a write from its attributes, such as `deployments.apps/default/web`; undefined for a resource that the server no longer serves. */
function writtenObject({ attributes }: Span, resources: readonly ApiResource[]): WrittenObject | undefined {
  const [type = '', ...names] = String(attributes['oarlock.object']).split('/');
  const resource = resources.find((each) => `${each.resource}${each.group === '' ? '' : `.${each.group}`}` === type);
  const name = names.at(-1);
  if (resource === undefined || name === undefined) return undefined;
  return { resource, namespace: names.length > 1 ? (names[0] ?? '') : '', name, resourceVersion: String(attributes['oarlock.revision']) };
}
