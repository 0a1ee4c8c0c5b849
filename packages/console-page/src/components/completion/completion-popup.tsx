import { useEffect, useRef } from 'preact/hooks';
import { text } from '../../text/en.ts';
import type { Completion } from './completions.ts';
import type { CompletionList } from './use-completion.ts';

const words = text.edit.completion;

export interface CompletionPopupProps {
  readonly id: string;
  readonly list: CompletionList;
  /** The place of the caret in the editor: in pixels, and the column in characters. */
  readonly caret: { readonly top: number; readonly left: number; readonly isLow: boolean };
  onAccept(item: Completion): void;
}

/** The number of items that are shown at a time, around the selected one: nothing has to be scrolled. */
const shownItems = 8;

export const optionId = (id: string, index: number): string => `${id}-${index}`;

/** The list of completions, below the caret or above it. The text area keeps the focus and refers to the selected item. */
export function CompletionPopup({ id, list: { items, active }, caret, onAccept }: CompletionPopupProps) {
  const popup = useRef<HTMLDivElement>(null);
  // properties of the element, because the content security policy allows no style attributes
  useEffect(() => {
    const { style } = popup.current ?? {};
    style?.setProperty('left', `clamp(0px, ${caret.left}px, max(0px, 100% - 22rem))`);
    style?.setProperty(caret.isLow ? 'bottom' : 'top', caret.isLow ? `calc(100% - ${caret.top - lineHeight}px)` : `${caret.top}px`);
  });
  const first = Math.max(0, Math.min(active - shownItems / 2, items.length - shownItems));
  const selected = items[active];
  return (
    <div ref={popup} class="completion">
      <ul id={id} role="listbox" aria-label={words.label}>
        {items.slice(first, first + shownItems).map((item, offset) => (
          <li
            key={item.label}
            id={optionId(id, first + offset)}
            role="option"
            aria-selected={first + offset === active}
            aria-setsize={items.length}
            aria-posinset={first + offset + 1}
            {...(first + offset === active && item.description !== '' && { 'aria-describedby': `${id}-description` })}
            onMouseDown={(event) => {
              event.preventDefault(); // the text area keeps the focus
              onAccept(item);
            }}
          >
            <strong>{item.label}</strong> <span class="quiet-text">{item.type}</span> {item.isRequired && <span class="required">{words.required}</span>}
          </li>
        ))}
      </ul>
      {items.length > shownItems && <p class="quiet-text">{words.position(active + 1, items.length)}</p>}
      {selected !== undefined && selected.description !== '' && (
        <p id={`${id}-description`} class="completion-help">
          {selected.description}
        </p>
      )}
    </div>
  );
}

/** The height of a line of the editor in pixels, as in the style sheet. */
export const lineHeight = 19;
