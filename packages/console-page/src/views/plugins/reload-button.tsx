import { useState } from 'preact/hooks';
import { useApp } from '../../app/context.ts';
import { text } from '../../text/en.ts';
import { reloadPlugin, type ReloadResult } from './plugin-reload.ts';

const { plugins: words } = text;

/** Reloads a plugin, and shows the result. */
export function ReloadButton({ name, onReload }: { readonly name: string; onReload(): void }) {
  const { client } = useApp();
  const [result, setResult] = useState<ReloadResult | 'running'>();
  const reload = async () => {
    if (result === 'running') return;
    setResult('running');
    const next = await reloadPlugin(client, name);
    setResult(next);
    if ('ms' in next) onReload();
  };
  return (
    <>
      <button type="button" aria-disabled={result === 'running'} onClick={() => void reload()}>
        {words.reload}
      </button>
      <div role="status">
        {typeof result === 'object' && 'ms' in result && <p>{words.reloaded(Math.round(result.ms))}</p>}
        {typeof result === 'object' && 'error' in result && (
          <>
            <p>{words.notReloaded}</p>
            <pre tabIndex={0} role="region" aria-label={words.notReloaded}>
              {result.error}
            </pre>
          </>
        )}
      </div>
    </>
  );
}
