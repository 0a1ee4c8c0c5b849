import { useId, useRef } from 'preact/hooks';

export interface YamlEditorProps {
  readonly label: string;
  readonly value: string;
  readonly isReadOnly?: boolean;
  onChange?(value: string): void;
  /** Called for Ctrl+Enter. */
  onSubmit?(): void;
}

/** A text editor for YAML with line numbers. Enter keeps the indentation. Tab moves the focus, so that the keyboard is never caught. */
export function YamlEditor({ label, value, isReadOnly = false, onChange, onSubmit }: YamlEditorProps) {
  const numbers = useRef<HTMLPreElement>(null);
  const id = useId();
  const count = value.split('\n').length;
  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLTextAreaElement }) => {
    if (event.key !== 'Enter' || isReadOnly) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      onSubmit?.();
      return;
    }
    const area = event.currentTarget;
    const line = area.value.slice(0, area.selectionStart).split('\n').at(-1) ?? '';
    const indentation = /^\s*(?:- )?/.exec(line)?.[0].replace('-', ' ') ?? '';
    area.setRangeText(`\n${/:\s*$/.test(line) ? `${indentation}  ` : indentation}`, area.selectionStart, area.selectionEnd, 'end');
    onChange?.(area.value);
  };
  return (
    <div class="editor">
      <label class="visually-hidden" for={id}>
        {label}
      </label>
      <pre ref={numbers} class="editor-numbers" aria-hidden="true">
        {Array.from({ length: count }, (_, index) => index + 1).join('\n')}
      </pre>
      <textarea
        id={id}
        value={value}
        readOnly={isReadOnly}
        spellcheck={false}
        autocomplete="off"
        wrap="off"
        onInput={({ currentTarget }) => onChange?.(currentTarget.value)}
        onKeyDown={onKeyDown}
        onScroll={({ currentTarget }) => {
          if (numbers.current !== null) numbers.current.scrollTop = currentTarget.scrollTop;
        }}
      />
    </div>
  );
}
