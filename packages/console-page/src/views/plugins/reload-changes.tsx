import { DiffView } from '../../components/diff-view.tsx';
import { text } from '../../text/en.ts';
import type { Reload } from './plugin-reload.ts';

const { plugins: words } = text;

/** Shows the lines of the source that the latest reload changed. */
export function ReloadChanges({ reload }: { readonly reload: Reload | undefined }) {
  if (reload === undefined) return null;
  const { ms, changes } = reload;
  return (
    <details open={changes.length > 0}>
      <summary>{words.latestReload(Math.round(ms), changes.length)}</summary>
      {changes.map(({ file, before, after }) => (
        <div key={file}>
          <h3>{file}</h3>
          <DiffView before={before} after={after} label={file} none={text.edit.noChanges} />
        </div>
      ))}
    </details>
  );
}
