import { useState } from 'preact/hooks';
import { errorText, type KubeObject } from '../../../api/client.ts';
import { pathOf } from '../../../api/resources.ts';
import { useApp } from '../../../app/context.ts';
import { text } from '../../../text/en.ts';
import type { WhatIf } from './explanation.ts';
import { NodeChangeFields } from './node-change-fields.tsx';
import { unchangedNode, type NodeChange } from './node-changes.ts';

interface WhatIfFormProps {
  /** The names of the nodes that can be changed. */
  readonly nodes: readonly string[];
  readonly isChanged: boolean;
  onEvaluate(changes: WhatIf): void;
  onReset(): void;
}

const unchanged: WhatIf = { cpu: '', memory: '', toleratesAll: false, ignoresNodeSelector: false, nodes: [] };

const nodesResource = { group: '', version: 'v1', resource: 'nodes' };

/** Asks for changes of the pod and of nodes that the scheduler evaluates. */
export function WhatIfForm({ nodes, isChanged, onEvaluate, onReset }: WhatIfFormProps) {
  const { client, toast } = useApp();
  const [changes, setChanges] = useState(unchanged);
  const setNodes = (change: (last: readonly NodeChange[]) => readonly NodeChange[]) => setChanges((last) => ({ ...last, nodes: change(last.nodes) }));
  const addNode = (name: string) =>
    client.json<KubeObject>(pathOf(nodesResource, '', name)).then(
      (node) => setNodes((last) => [...last, unchangedNode(node)]),
      (error: unknown) => toast('error', errorText(error)),
    );
  const isChangedNode = (name: string) => changes.nodes.some(({ node }) => node.metadata.name === name);
  const quantity = (field: 'cpu' | 'memory', example: string) => (
    <label>
      <span>{text.scheduling[field]}</span>
      <input value={changes[field]} placeholder={example} onInput={({ currentTarget: { value } }) => setChanges({ ...changes, [field]: value.trim() })} />
    </label>
  );
  const flag = (field: 'toleratesAll' | 'ignoresNodeSelector') => (
    <label class="check">
      <input type="checkbox" checked={changes[field]} onChange={() => setChanges({ ...changes, [field]: !changes[field] })} />
      {text.scheduling[field]}
    </label>
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onEvaluate(changes);
      }}
    >
      <h2>{text.scheduling.whatIf}</h2>
      <p class="quiet-text">{text.scheduling.whatIfHelp}</p>
      <div class="controls">
        {quantity('cpu', '500m')}
        {quantity('memory', '256Mi')}
        {flag('toleratesAll')}
        {flag('ignoresNodeSelector')}
        <label>
          <span>{text.scheduling.changeNode}</span>
          <select value="" onChange={({ currentTarget: { value } }) => void addNode(value)}>
            <option value="">{text.scheduling.selectNode}</option>
            {nodes.filter((name) => !isChangedNode(name)).map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      {changes.nodes.map((change, index) => (
        <NodeChangeFields
          key={change.node.metadata.name}
          change={change}
          onChange={(next) => setNodes((last) => last.with(index, next))}
          onUndo={() => setNodes((last) => last.toSpliced(index, 1))}
        />
      ))}
      <div class="controls">
        <button type="submit" class="primary">
          {text.scheduling.evaluate}
        </button>
        {isChanged && (
          <button type="button" onClick={onReset}>
            {text.scheduling.current}
          </button>
        )}
      </div>
    </form>
  );
}
