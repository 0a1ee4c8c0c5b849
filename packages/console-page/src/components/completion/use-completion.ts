import type { RefObject } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { errorText, isApiError } from '../../api/client.ts';
import { apiVersionOf } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { completionsAt, type Completion } from './completions.ts';
import { SchemaLoader } from './schema-loader.ts';
import { positionAt, type YamlPosition } from './yaml-position.ts';

/** The list that the editor shows. */
export interface CompletionList {
  readonly position: YamlPosition;
  readonly items: readonly Completion[];
  /** The index of the selected item; -1 while none is. */
  readonly active: number;
}

export interface CompletionControl {
  readonly list: CompletionList | undefined;
  /** Why there are no schemas. */
  readonly problem: string;
  /** Looks for completions at the caret: on request of the user, or for typed text. */
  suggest(isRequested: boolean): void;
  accept(item: Completion): void;
  close(): void;
  /** Handles a key of the editor. Returns true if it was one of the list. */
  onKey(event: KeyboardEvent): boolean;
}

/** Returns a function that finds the completions at the caret; it loads the schemas of the document's type when they are needed. */
function useCompletionSource(): (element: HTMLTextAreaElement, isRequested: boolean) => Promise<CompletionList | undefined> {
  const { client, resources } = useApp();
  const loader = useMemo(() => new SchemaLoader(client), [client]);
  const types = useMemo(
    () =>
      resources
        .filter(({ verbs }) => verbs.includes('create'))
        .map((resource) => ({ apiVersion: apiVersionOf(resource), kind: resource.kind })),
    [resources],
  );
  return async (element, isRequested) => {
    const position = positionAt(element.value, element.selectionStart);
    if (position === undefined || (!isRequested && position.prefix === '' && position.key === undefined)) return undefined;
    const schemas = position.apiVersion === '' ? undefined : await loader.load(position.apiVersion);
    const items = completionsAt(position, schemas, types);
    return items.length === 0 ? undefined : { position, items, active: isRequested ? 0 : -1 };
  };
}

/**
 * Completes keys and values in a text area with YAML, from the OpenAPI v3 schemas of the server. The list opens for Ctrl+Space, with the first item selected,
 * and for typing, without a selected item: Enter continues to begin a line until the user selects an item.
 */
export function useCompletion(area: RefObject<HTMLTextAreaElement | null>, onChange: (value: string) => void): CompletionControl {
  const find = useCompletionSource();
  const [list, setList] = useState<CompletionList>();
  const [problem, setProblem] = useState('');
  const attempt = useRef(0);
  const close = () => {
    attempt.current += 1;
    setList(undefined);
  };
  const suggest = (isRequested: boolean) => {
    if (area.current === null) return;
    attempt.current += 1;
    const mine = attempt.current;
    find(area.current, isRequested).then(
      (found) => {
        if (mine !== attempt.current) return;
        setList(found);
        setProblem('');
      },
      // a user without permission to read the schemas edits without completion
      (error: unknown) => setProblem(isApiError(error, 403, 404) ? '' : errorText(error)),
    );
  };
  const accept = (item: Completion | undefined) => {
    const element = area.current;
    if (element === null || list === undefined || item === undefined) return;
    element.setRangeText(item.insert, list.position.from, list.position.to, 'end');
    onChange(element.value);
    element.focus();
    close();
    suggest(false);
  };
  const onKey = (event: KeyboardEvent): boolean => {
    const action = actionOf(event, list);
    if (action === undefined) return false;
    if (action === 'suggest') suggest(true);
    else if (action === 'accept') accept(list?.items[list.active]);
    else if (action === 'close' || action === 'leave') close();
    else setList(list && { ...list, active: action });
    if (action === 'leave') return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  return { list, problem, suggest, accept, close, onKey };
}

const leavingKeys = new Set(['Enter', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'PageUp', 'PageDown']);

/** Returns what a key does: the index of the item to select, or an action. `leave` closes the list and leaves the key to the text area. */
function actionOf(event: KeyboardEvent, list: CompletionList | undefined): number | 'suggest' | 'accept' | 'close' | 'leave' | undefined {
  const { key, ctrlKey, metaKey, altKey } = event;
  if (key === ' ' && ctrlKey) return 'suggest';
  if (list === undefined || ctrlKey || metaKey || altKey) return undefined;
  const { items, active } = list;
  if (key === 'ArrowDown') return (active + 1) % items.length;
  if (key === 'ArrowUp') return active <= 0 ? items.length - 1 : active - 1;
  if (key === 'Escape') return 'close';
  if (key === 'Enter' && active >= 0) return 'accept';
  return leavingKeys.has(key) ? 'leave' : undefined;
}
