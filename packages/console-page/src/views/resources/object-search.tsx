import { useEffect, useRef, useState } from 'preact/hooks';
import { useApp } from '../../app/context.ts';
import { objectLink } from '../../app/links.ts';
import { text } from '../../text/en.ts';
import { searchable, searchObjects, type FoundObject } from './search-objects.ts';

interface Result {
  readonly found: readonly FoundObject[];
  readonly searched: number;
}

/** Searches objects of all kinds by a part of their name. */
export function ObjectSearch() {
  const { client, resources, namespace, toast } = useApp();
  const [part, setPart] = useState('');
  const [result, setResult] = useState<Result>();
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const search = (event: Event) => {
    event.preventDefault();
    running.current?.abort();
    if (part.trim() === '') return;
    const abort = new AbortController();
    running.current = abort;
    setResult({ found: [], searched: 0 });
    searchObjects({
      client,
      resources,
      namespace,
      part: part.trim().toLowerCase(),
      signal: abort.signal,
      onProgress: (found, searched) => setResult({ found, searched }),
    }).catch((error: unknown) => {
      if (!abort.signal.aborted) toast('error', String(error));
    });
  };
  return (
    <div class="object-search">
      <form class="controls" role="search" onSubmit={search}>
        <label>
          <span>{text.resources.searchObjects}</span>
          <input type="search" value={part} onInput={({ currentTarget }) => setPart(currentTarget.value)} />
        </label>
        <button type="submit">{text.resources.searchObjectsButton}</button>
      </form>
      {result && (
        <div class="found" role="status">
          <p class="quiet-text">
            {text.resources.found(result.found.length)} · {text.resources.searched(result.searched, searchable(resources).length)}
          </p>
          <ul>
            {result.found.map(({ resource, name, namespace: ns }) => (
              <li key={`${resource.resource}.${resource.group}/${ns}/${name}`}>
                <a href={objectLink(resource, { namespace: ns, name })}>
                  {resource.kind} {ns === '' ? name : `${ns}/${name}`}
                </a>
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}
