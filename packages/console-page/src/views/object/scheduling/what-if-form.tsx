import { useState } from 'preact/hooks';
import { text } from '../../../text/en.ts';
import type { WhatIf } from './explanation.ts';

interface WhatIfFormProps {
  readonly isChanged: boolean;
  onEvaluate(changes: WhatIf): void;
  onReset(): void;
}

const unchanged: WhatIf = { cpu: '', memory: '', toleratesAll: false, ignoresNodeSelector: false };

/** Asks for changes of the pod that the scheduler evaluates. */
export function WhatIfForm({ isChanged, onEvaluate, onReset }: WhatIfFormProps) {
  const [changes, setChanges] = useState(unchanged);
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
      </div>
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
