import { useEffect, useRef, useState } from 'preact/hooks';
import { errorText, isApiError, type KubeObject } from '../../api/client.ts';
import { objectPath } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { DiffView } from '../../components/diff-view.tsx';
import { YamlEditor } from '../../components/yaml-editor.tsx';
import { editableOf, fromYaml, toYaml } from '../../components/yaml-text.ts';
import { text } from '../../text/en.ts';
import type { TabProps } from './object-page.tsx';

const fieldManager = 'oarlock-console';

interface Review {
  /** The object that the changes are compared with. */
  readonly base: KubeObject;
  /** The object as the server would store it. */
  readonly result: KubeObject;
}

/** What has the focus first in each step. */
const focusedFirst = { view: 'button.primary', edit: 'textarea', review: '.diff, .primary' } as const;

/** Shows the object as YAML. An edit is sent as a dry run first; its result is shown as a difference before it is applied. */
export function YamlTab({ resource, object }: TabProps) {
  const { client, toast } = useApp();
  const [draft, setDraft] = useState<string>();
  const [base, setBase] = useState(object);
  const [review, setReview] = useState<Review>();
  const [message, setMessage] = useState('');
  const [showsManaged, setShowsManaged] = useState(false);
  const path = objectPath(resource, object);
  const tab = useRef<HTMLDivElement>(null);
  // each step replaces the button that was pressed: the focus moves to what the step begins with
  const step = review !== undefined ? 'review' : draft !== undefined ? 'edit' : 'view';
  const lastStep = useRef(step);
  useEffect(() => {
    if (step !== lastStep.current) tab.current?.querySelector<HTMLElement>(focusedFirst[step])?.focus();
    lastStep.current = step;
  }, [step]);

  const put = (changed: unknown, onto: KubeObject, dryRun: boolean) => {
    const { metadata, ...rest } = changed as KubeObject;
    const body = JSON.stringify({ ...rest, metadata: { ...metadata, resourceVersion: onto.metadata.resourceVersion } });
    return client.json<KubeObject>(path, { method: 'PUT', body, query: { fieldManager, fieldValidation: 'Strict', ...(dryRun && { dryRun: 'All' }) } });
  };
  const check = async () => {
    try {
      const changed = fromYaml(draft ?? '');
      setReview({ base, result: await put(changed, base, true) });
      setMessage('');
    } catch (error) {
      await fail(error);
    }
  };
  const apply = async () => {
    try {
      await put(fromYaml(draft ?? ''), review?.base ?? base, false);
      toast('success', text.edit.applied);
      setDraft(undefined);
      setReview(undefined);
      setMessage('');
    } catch (error) {
      await fail(error);
    }
  };
  /** After a conflict, the next check compares the text with the newest version. */
  const fail = async (error: unknown) => {
    setReview(undefined);
    if (!isApiError(error, 409)) {
      setMessage(errorText(error));
      return;
    }
    // the message invites to check again, which needs the newest version
    setBase(await client.json<KubeObject>(path));
    setMessage(text.edit.conflict);
  };
  const edit = () => {
    setBase(object);
    setDraft(toYaml(editableOf(object)));
  };
  const cancel = () => {
    setDraft(undefined);
    setReview(undefined);
    setMessage('');
  };
  const run = (work: () => Promise<void>) => () => void work().catch((error: unknown) => setMessage(errorText(error)));

  if (review !== undefined) {
    const yamlOf = (each: KubeObject) => toYaml(editableOf(withoutServerFields(each)));
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key === 'Escape') setReview(undefined);
    };
    return (
      <div ref={tab} class="tab-body" onKeyDown={onKeyDown}>
        <p>{text.edit.diffTitle}</p>
        <DiffView before={yamlOf(review.base)} after={yamlOf(review.result)} label={text.edit.diffTitle} none={text.edit.noChanges} />
        <div class="actions">
          <button type="button" onClick={() => setReview(undefined)}>
            {text.edit.back}
          </button>
          <button type="button" class="primary" onClick={run(apply)}>
            {text.edit.apply}
          </button>
        </div>
      </div>
    );
  }
  return (
    <div ref={tab} class="tab-body">
      {message !== '' && (
        <p class="error-message" role="alert">
          {message}
        </p>
      )}
      <YamlEditor
        label={text.edit.editor}
        value={draft ?? toYaml(editableOf(object, { keepManagedFields: showsManaged }))}
        isReadOnly={draft === undefined}
        onChange={setDraft}
        onSubmit={run(check)}
      />
      <div class="actions">
        {draft === undefined ? (
          <>
            <label class="check">
              <input type="checkbox" checked={showsManaged} onChange={({ currentTarget }) => setShowsManaged(currentTarget.checked)} />
              <span>{text.edit.showManaged}</span>
            </label>
            <button type="button" class="primary" onClick={edit}>
              {text.edit.edit}
            </button>
          </>
        ) : (
          <>
            <button type="button" onClick={cancel}>
              {text.cancel}
            </button>
            <button type="button" class="primary" onClick={run(check)}>
              {text.edit.review}
            </button>
          </>
        )}
      </div>
    </div>
  );
}

/** Returns the object without fields that change with every write. */
function withoutServerFields(object: KubeObject): KubeObject {
  const { generation: _generation, ...metadata } = object.metadata;
  return { ...object, metadata };
}
