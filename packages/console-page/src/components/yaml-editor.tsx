import { useId, useRef, useState } from 'preact/hooks';
import { text } from '../text/en.ts';
import { CompletionPopup, lineHeight, optionId } from './completion/completion-popup.tsx';
import { useCompletion } from './completion/use-completion.ts';

export interface YamlEditorProps {
  readonly label: string;
  readonly value: string;
  readonly isReadOnly?: boolean;
  onChange?(value: string): void;
  /** Called for Ctrl+Enter. */
  onSubmit?(): void;
}

const words = text.edit.completion;

/**
 * A text editor for YAML with line numbers, which completes keys and values from the schemas of the server. Enter keeps the indentation. Tab moves the focus,
 * so that the keyboard is never caught.
 */
export function YamlEditor({ label, value, isReadOnly = false, onChange, onSubmit }: YamlEditorProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const numbers = useRef<HTMLPreElement>(null);
  const [scroll, setScroll] = useState({ top: 0, left: 0 });
  const id = useId();
  const completion = useCompletion(area, (changed) => onChange?.(changed));
  const { list } = completion;
  const count = value.split('\n').length;
  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLTextAreaElement }) => {
    if (isReadOnly || completion.onKey(event) || event.key !== 'Enter') return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      onSubmit?.();
      return;
    }
    beginLine(event.currentTarget);
    onChange?.(event.currentTarget.value);
  };
  const listId = `${id}-list`;
  const selectedId = list !== undefined && list.active >= 0 ? optionId(listId, list.active) : undefined;
  return (
    <div class="editor-box">
      <div class="editor">
        <label class="visually-hidden" for={id}>
          {label}
        </label>
        <pre ref={numbers} class="editor-numbers" aria-hidden="true">
          {Array.from({ length: count }, (_, index) => index + 1).join('\n')}
        </pre>
        <textarea
          ref={area}
          id={id}
          value={value}
          readOnly={isReadOnly}
          spellcheck={false}
          autocomplete="off"
          wrap="off"
          {...(!isReadOnly && { 'aria-autocomplete': 'list' as const, 'aria-describedby': `${id}-help` })}
          {...(list !== undefined && { 'aria-controls': listId })}
          {...(selectedId !== undefined && { 'aria-activedescendant': selectedId })}
          onInput={({ currentTarget }) => {
            onChange?.(currentTarget.value);
            completion.suggest(false);
          }}
          onKeyDown={onKeyDown}
          onMouseDown={completion.close}
          onBlur={completion.close}
          onScroll={({ currentTarget }) => {
            if (numbers.current !== null) numbers.current.scrollTop = currentTarget.scrollTop;
            setScroll({ top: currentTarget.scrollTop, left: currentTarget.scrollLeft });
          }}
        />
      </div>
      {list !== undefined && area.current !== null && (
        <CompletionPopup id={listId} list={list} caret={caretIn(area.current, list.position.from, scroll)} onAccept={completion.accept} />
      )}
      {!isReadOnly && (
        <p id={`${id}-help`} class="quiet-text">
          {words.help} {completion.problem !== '' && words.problem(completion.problem)}
        </p>
      )}
      <span class="visually-hidden" role="status">
        {list === undefined ? '' : words.count(list.items.length)}
      </span>
    </div>
  );
}

/** Begins a line with the indentation of the current one, deeper after a key without a value. */
function beginLine(area: HTMLTextAreaElement): void {
  const line = area.value.slice(0, area.selectionStart).split('\n').at(-1) ?? '';
  const indentation = /^\s*(?:- )?/.exec(line)?.[0].replace('-', ' ') ?? '';
  area.setRangeText(`\n${/:\s*$/.test(line) ? `${indentation}  ` : indentation}`, area.selectionStart, area.selectionEnd, 'end');
}

/** The width of a character and the padding of the text area in pixels, as in the style sheet. */
const characterWidth = 7.83;
const padding = 8;

/** Returns the place below a position of the text, relative to the editor. */
function caretIn(area: HTMLTextAreaElement, position: number, { top, left }: { readonly top: number; readonly left: number }) {
  const lines = area.value.slice(0, position).split('\n');
  const caretTop = padding + lines.length * lineHeight - top;
  return {
    top: caretTop,
    left: area.offsetLeft + padding + (lines.at(-1)?.length ?? 0) * characterWidth - left,
    isLow: caretTop > area.clientHeight / 2 + lineHeight,
  };
}
