import { useEffect, useState } from 'preact/hooks';

export interface SelectorInputProps {
  readonly label: string;
  readonly value: string;
  readonly placeholder: string;
  onChange(value: string): void;
}

/** An input whose value counts when the user leaves it or presses Enter. */
export function SelectorInput({ label, value, placeholder, onChange }: SelectorInputProps) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  return (
    <label>
      <span>{label}</span>
      <input
        type="text"
        value={draft}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => setDraft(currentTarget.value)}
        onChange={({ currentTarget }) => onChange(currentTarget.value.trim())}
      />
    </label>
  );
}
