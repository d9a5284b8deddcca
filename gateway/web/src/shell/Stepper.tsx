// A small number with a button on either side, for thumbs; the arrow keys change it too.

import { clamped } from "./numbers.ts";

export interface StepperProps {
  label: string;
  value: number;
  least: number;
  most: number;
  onValue: (value: number) => void;
}

export function Stepper({ label, value, least, most, onValue }: StepperProps) {
  const typed = (text: string) => onValue(clamped(Number(text), least, most));
  return (
    <div class="stepper" role="group" aria-label={label}>
      <button
        type="button"
        class="button"
        aria-label={`${label}: one less`}
        disabled={value <= least}
        onClick={() => onValue(value - 1)}
      >
        −
      </button>
      <input
        type="number"
        inputMode="numeric"
        aria-label={label}
        min={least}
        max={most}
        value={value}
        onChange={(change) => {
          typed(change.currentTarget.value);
          // What was typed may be what it was: then nothing is drawn anew, and the field would keep the typing.
          change.currentTarget.value = String(clamped(Number(change.currentTarget.value), least, most));
        }}
      />
      <button
        type="button"
        class="button"
        aria-label={`${label}: one more`}
        disabled={value >= most}
        onClick={() => onValue(value + 1)}
      >
        +
      </button>
    </div>
  );
}
