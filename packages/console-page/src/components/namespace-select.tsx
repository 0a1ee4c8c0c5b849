import { useApp } from '../app/context.ts';
import { useObjects } from '../app/hooks.ts';
import { text } from '../text/en.ts';

export interface NamespaceSelectProps {
  readonly value: string;
  readonly label?: string;
  /** False if one namespace is required. */
  readonly allowAll?: boolean;
  onChange(namespace: string): void;
}

/** A choice of the namespace. Users who may not list namespaces type the name. */
export function NamespaceSelect({ value, onChange, label = text.table.namespace, allowAll = true }: NamespaceSelectProps) {
  const { setNamespace } = useApp();
  const { items, state } = useObjects('/api/v1/namespaces');
  const change = (namespace: string) => {
    setNamespace(namespace);
    onChange(namespace);
  };
  const names = items.map(({ metadata: { name } }) => name).sort();
  if (state === 'stopped')
    return (
      <label>
        <span>{label}</span>
        <input type="text" value={value} onChange={({ currentTarget }) => change(currentTarget.value.trim())} />
      </label>
    );
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={({ currentTarget }) => change(currentTarget.value)}>
        {allowAll && <option value="">{text.table.allNamespaces}</option>}
        {!names.includes(value) && value !== '' && <option value={value}>{value}</option>}
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}
