import { useState } from 'preact/hooks';
import { errorText, type KubeObject } from '../../../api/client.ts';
import { useApp } from '../../../app/context.ts';
import { DiffView } from '../../../components/diff-view.tsx';
import { Dialog } from '../../../components/dialog.tsx';
import { toYaml } from '../../../components/yaml-text.ts';
import { text } from '../../../text/en.ts';
import type { WhatIf } from './explanation.ts';
import { replacementOf, replacePod } from './replace-pod.ts';

interface ReplaceDialogProps {
  readonly pod: KubeObject;
  readonly changes: WhatIf;
  onClose(): void;
  onReplaced(): void;
}

const unchanged: WhatIf = { cpu: '', memory: '', toleratesAll: false, ignoresNodeSelector: false, nodes: [] };

/** Replaces a pod that waits for a node by the changed pod, after the user has seen the difference. */
export function ReplaceDialog({ pod, changes, onClose, onReplaced }: ReplaceDialogProps) {
  const { client, toast } = useApp();
  const [message, setMessage] = useState('');
  const replace = async (event: Event) => {
    event.preventDefault();
    try {
      await replacePod(client, pod, changes);
      toast('success', text.scheduling.replaced(pod.metadata.name));
      onReplaced();
    } catch (error) {
      setMessage(errorText(error));
    }
  };
  const yamlOf = (which: WhatIf) => toYaml(replacementOf(pod, which));
  return (
    <Dialog title={text.scheduling.replaceTitle(pod.metadata.name)} onClose={onClose} isWide>
      <form onSubmit={(event) => void replace(event)}>
        {message !== '' && (
          <p class="error-message" role="alert">
            {message}
          </p>
        )}
        <p>{text.scheduling.replaceHelp}</p>
        <DiffView before={yamlOf(unchanged)} after={yamlOf(changes)} label={text.scheduling.replaceDiff} none={text.edit.noChanges} />
        <div class="actions">
          <button type="button" onClick={onClose}>
            {text.cancel}
          </button>
          <button type="submit" class="primary">
            {text.scheduling.replaceConfirm}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
