import { text } from '../../../text/en.ts';
import type { NodeChange, NodeChangeMode } from './node-changes.ts';

interface NodeChangeFieldsProps {
  readonly change: NodeChange;
  onChange(change: NodeChange): void;
  onUndo(): void;
}

const modes: readonly NodeChangeMode[] = ['edit', 'remove', 'copy'];

/** The fields of a change of one node. */
export function NodeChangeFields({ change, onChange, onUndo }: NodeChangeFieldsProps) {
  const { name } = change.node.metadata;
  const field = (id: 'taints' | 'labels' | 'cpu' | 'memory', placeholder: string) => (
    <label>
      <span>{text.scheduling.nodeFields[id]}</span>
      <input
        value={change[id]}
        placeholder={placeholder}
        size={id === 'taints' || id === 'labels' ? 32 : 8}
        onInput={({ currentTarget: { value } }) => onChange({ ...change, [id]: value })}
      />
    </label>
  );
  return (
    <fieldset>
      <legend>{text.scheduling.changedNode(name)}</legend>
      <div class="controls">
        <label>
          <span>{text.scheduling.change}</span>
          <select value={change.mode} onChange={({ currentTarget: { value } }) => onChange({ ...change, mode: value as NodeChangeMode })}>
            {modes.map((mode) => (
              <option key={mode} value={mode}>
                {text.scheduling.modes[mode]}
              </option>
            ))}
          </select>
        </label>
        {change.mode !== 'remove' && (
          <>
            {field('taints', 'dedicated=db:NoSchedule')}
            {field('cpu', '4')}
            {field('memory', '8Gi')}
            {field('labels', 'zone=a')}
            <label class="check">
              <input type="checkbox" checked={change.unschedulable} onChange={() => onChange({ ...change, unschedulable: !change.unschedulable })} />
              {text.scheduling.nodeFields.unschedulable}
            </label>
          </>
        )}
        <button type="button" onClick={onUndo}>
          {text.scheduling.undoNode(name)}
        </button>
      </div>
    </fieldset>
  );
}
