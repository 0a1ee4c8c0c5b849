import { diffLines, withContext } from './diff-lines.ts';

const signs = { same: ' ', added: '+', removed: '-' } as const;

/** Shows the difference of two texts. Returns the message if there is none. */
export function DiffView({ before, after, label, none }: { readonly before: string; readonly after: string; readonly label: string; readonly none: string }) {
  if (before === after) return <p class="empty">{none}</p>;
  return (
    <pre class="diff" role="region" aria-label={label} tabIndex={0}>
      {withContext(diffLines(before, after)).map((line, index) =>
        line === undefined ? (
          <div key={index} class="diff-gap">
            …
          </div>
        ) : (
          <div key={index} class={`diff-${line.kind}`}>
            {`${signs[line.kind]} ${line.text}`}
          </div>
        ),
      )}
    </pre>
  );
}
